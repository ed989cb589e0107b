# `look` puts what is in force here into `walls`, as lines. Builtins of bash alone, and each file read at
# once: every run does this before its code starts. What differs from container to container, such as the
# layers of the root, is left out.
wall() { walls+="$*"$'\n'; }
look() {
    local line kind file lines
    walls=$'\n'
    set -f
    mapfile -t lines </proc/self/status
    for line in "${lines[@]}"; do
        case $line in Uid:* | Cap*:* | NoNewPrivs:* | Seccomp:*) wall status $line ;; esac
    done
    mapfile -t lines </proc/net/route
    for line in "${lines[@]:1}"; do wall route "${line%%[[:blank:]]*}"; done
    lines=()
    [ ! -e /proc/net/ipv6_route ] || mapfile -t lines </proc/net/ipv6_route
    for line in "${lines[@]}"; do wall route "${line##* }"; done
    mapfile -t lines </proc/self/mountinfo
    for line in "${lines[@]}"; do
        kind=${line#* - }
        case $kind in tmpfs\ *) ;; *) kind=${kind%% *} ;; esac
        set -- $line
        wall mount "$5" "$6" "$kind"
    done
    for file in memory.max memory.swap.max cpu.max pids.max memory/memory.limit_in_bytes \
        memory/memory.memsw.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us pids/pids.max; do
        [ ! -r /sys/fs/cgroup/$file ] || { read -r line </sys/fs/cgroup/$file && wall cgroup $file $line; }
    done
    set +f
    for file in /dev/*; do wall device "${file#/dev/}"; done
    # Names that no shell can unset.
    mapfile -d '' -t variables </proc/self/environ
    for line in "${variables[@]%%=*}"; do
        case $line in *[!a-zA-Z0-9_]*) wall variable "$line" ;; esac
    done
}
