# What the set-up, the demo and the test command share. Sourced, not run.
#
# A checkout below a folder that is closed to other users is no place to run from: Vestibule refuses
# root, so that root's own tests and demo use an unused uid, which must be able to reach the programs.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
[ -d "$HOME/.cargo/bin" ] && PATH=$PATH:$HOME/.cargo/bin
target=${CARGO_TARGET_DIR:-target}
user=${AS_UID:-12345}

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Rust itself comes from no distribution package that is new enough everywhere.
need_rust() {
    local version
    # Some callers end at any failure, and this one has a message.
    version=$({ cargo --version 2>/dev/null || true; } | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    [ "${version:-0}" -ge 89 ] || die "Rust 1.89 or newer is needed${version:+, found 1.$version}. Get it with
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y
then run this again in a new shell."
}

# install_packages FILE:PACKAGE...: the Debian packages whose file is not there; says what it installs.
install_packages() {
    local missing=() entry sudo=
    for entry in "$@"; do
        [ -e "${entry%%:*}" ] || missing+=("${entry##*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "Please install, with this system's package manager: ${missing[*]}"
    [ "$(id -u)" = 0 ] || sudo=sudo
    say "Installing from the distribution: ${missing[*]}"
    $sudo apt-get update -q >&2 </dev/null || say "apt-get update failed; going on with the lists there are"
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
        "${missing[@]}" >&2 </dev/null || die "Could not install: ${missing[*]}"
}

need_build_packages() {
    install_packages /usr/bin/cc:gcc /usr/include/stdlib.h:libc6-dev /usr/include/seccomp.h:libseccomp-dev \
        /usr/bin/bash:bash /usr/bin/python3:python3 /usr/bin/node:nodejs /usr/bin/setpriv:util-linux
}

need_test_packages() {
    need_build_packages
    install_packages /usr/bin/bwrap:bubblewrap /usr/bin/strace:strace /usr/bin/pgrep:procps \
        "$(/usr/bin/python3 -c 'import sys; print(f"{sys.prefix}/lib/python3.{sys.version_info[1]}/ensurepip")'):python3-venv"
}

build_release() {
    cargo build --release --locked -q -p vestibule-mcp -p vestibule-jail
}

# Copies the programs into a new folder that every user can reach, and prints its name.
stage() {
    local folder
    folder=$(mktemp -d /tmp/vestibule-stage.XXXXXX)
    chmod 755 "$folder"
    command install -m 755 "$target/release/vestibule-mcp" "$target/release/vestibule-jail" "$folder"
    printf '%s\n' "$folder"
}

# A fresh home folder below FOLDER for the user that `as_user` becomes.
home_in() {
    local home
    home=$(mktemp -d "$1/home.XXXXXX")
    [ "$(id -u)" != 0 ] || chown "$user:$user" "$home"
    printf '%s\n' "$home"
}

# as_user COMMAND...: as it is, or as an unused uid without capabilities if called by root.
as_user() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all -- "$@"
    else
        "$@"
    fi
}
