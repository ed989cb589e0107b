# The build root of the cross tier: a Debian chroot with a compiler, std for three targets, mingw
# and wine. Sourced by `run`, inside namespaces of its own.

suite=${CROSS_SUITE:-trixie}
case $suite in
    trixie) packages=rustc-web,cargo-web,rust-web-src ;; # a stable suite's newer compiler
    *) packages=rustc,cargo,rust-src ;;
esac
# mingw with win32 threads: a program of the other kind needs a DLL beside it.
packages+=,gcc-mingw-w64-x86-64-win32,wine,wine64
# The build root is made again when this changes.
recipe="1 $suite $packages"

# A /dev of our own, so that no tool which clears or rewrites devices can reach the real ones.
private_dev() {
    local dev=$cache/dev name
    mkdir -p "$dev"
    mount -t tmpfs -o mode=755 none "$dev"
    for name in null zero full random urandom tty; do
        : >"$dev/$name"
        mount --bind "/dev/$name" "$dev/$name"
    done
    mkdir "$dev/shm" "$dev/pts"
    mount -t tmpfs none "$dev/shm"
    mount --bind /dev/pts "$dev/pts"
    ln -s pts/ptmx "$dev/ptmx"
    ln -s /proc/self/fd "$dev/fd"
    for name in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${name%:*}" "$dev/${name#*:}"; done
    mount --move "$dev" /dev
    rmdir "$dev"
}

make_root() {
    [ "$(cat "$root/.recipe" 2>/dev/null)" = "$recipe" ] && return
    say "making the build root ($suite) in $cache"
    rm -rf "$root" "$cache/target" "$cache/prefix"
    # std is built from the compiler's sources; the rest of them is 300 MB. dpkg's `*` matches
    # slashes too, so the folder's name is spelled out with `?`.
    local rust='path-exclude=/usr/src/rustc-?.??.?'
    mmdebstrap --quiet --mode=root --variant=essential \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt="$rust/compiler/*" --dpkgopt="$rust/src/*" --dpkgopt="$rust/tests/*" \
        --include="$packages" "$suite" "$root" ${CROSS_MIRROR:+"$CROSS_MIRROR"} || return
    # wine copies its DLLs into every prefix: without debug data they are a third of the size.
    chroot "$root" sh -c 'find /usr/lib/*/wine/x86_64-windows -type f \
        -exec x86_64-w64-mingw32-strip --strip-debug {} + 2>/dev/null' || true
    mkdir -p "$root"/{sources,cache,std/src}
    printf '[package]\nname = "std-builder"\nversion = "0.0.0"\nedition = "2024"\n' >"$root/std/Cargo.toml"
    : >"$root/std/src/lib.rs"
}

# Debian has std for the host only. It is built once and put where rustc looks: after that, a plain
# `cargo build --target` works, without any unstable flag. For macOS a check is enough, since
# nothing is linked.
make_std() {
    [ -f "$root/.recipe" ] && return
    say "building std for $windows, checking it for ${macs[*]}"
    # shellcheck disable=SC2016
    enter RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=/std/target sh -euc '
        windows=$1; shift; cd /std
        std="--quiet --release -Zbuild-std=std,panic_unwind,test"
        cargo build $std --target "$windows"
        cargo check $std $(printf " --target %s" "$@")
        for target in "$windows" "$@"; do
            lib=$(rustc --print sysroot)/lib/rustlib/$target/lib
            mkdir -p "$lib"
            case $target in "$windows") kind=rlib ;; *) kind=rmeta ;; esac
            cp target/"$target"/release/deps/*.$kind "$lib"/
            rm -f "$lib"/libstd_builder-*
        done
        rm -rf target' sh "$windows" "${macs[@]}" || return
    echo "$recipe" >"$root/.recipe"
}

mount_root() {
    mkdir -p "$cache/cargo"
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mount -t tmpfs none "$root/tmp"
    mount --bind "$cache" "$root/cache"
    mount --bind "$sources" "$root/sources"
    mount -o remount,bind,ro "$root/sources"
    # The registry is reached as on the host: same resolver, certificates and cargo settings.
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    local certificates=/etc/ssl/certs/ca-certificates.crt
    local settings=${CARGO_HOME:-$HOME/.cargo}/config.toml
    mkdir -p "$root/etc/ssl/certs"
    [ ! -f "$certificates" ] || cp -L "$certificates" "$root$certificates"
    [ ! -f "$settings" ] || cp -L "$settings" "$cache/cargo/config.toml"
}

# enter [VAR=value...] COMMAND...: in the chroot, with nothing of our environment but proxies.
enter() {
    local pass=()
    mapfile -t pass < <(env | grep -E '^(https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY|CARGO_(HTTP|NET|SOURCE)_[A-Z_]*)=')
    chroot "$root" env -i "${pass[@]}" PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root LANG=C.UTF-8 TERM=dumb TZ=UTC \
        SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt \
        CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/cache/target \
        WINEPREFIX=/cache/prefix WINEDEBUG=-all XDG_RUNTIME_DIR=/tmp \
        WINEDLLOVERRIDES='mscoree=;mshtml=;winemenubuilder.exe=' "$@"
}
