# `look` puts what is in force here into `vestibule_walls`, as lines. Builtins of bash alone, and each file
# read at once: every run does this before its code starts. What differs from container to container, such
# as the layers of the root, is left out.
wall() { vestibule_walls+="$*"$'\n'; }
look() {
    local line kind file lines
    vestibule_walls=$'\n'
    set -f
    mapfile -t lines </proc/self/status
    for line in "${lines[@]}"; do
        case $line in Uid:* | Cap*:* | NoNewPrivs:* | Seccomp:*) wall status $line ;; esac
    done
    mapfile -t lines </proc/self/uid_map
    for line in "${lines[@]}"; do wall uid-map $line; done
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
        # Which folder of which file system it is.
        [ "$5" != /workspace ] || wall workspace-is "$3" "$4"
    done
    kind=
    for file in memory.max memory.swap.max cpu.max pids.max memory/memory.limit_in_bytes \
        memory/memory.memsw.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us pids/pids.max; do
        [ ! -r /sys/fs/cgroup/$file ] || { read -r line </sys/fs/cgroup/$file && wall cgroup $file $line; }
        case $file in *sw*) [ ! -r /sys/fs/cgroup/$file ] || kind=counted ;; esac
    done
    lines=()
    [ -n "$kind" ] || mapfile -t lines </proc/swaps
    for line in "${lines[@]:1}"; do wall swap "${line%%[[:blank:]]*}"; done
    set +f
    for file in /dev/* /dev/shm/* /dev/mqueue/*; do
        if [ -L "$file" ]; then
            wall device "${file#/dev/}@"
        elif [ -e "$file" ]; then
            wall device "${file#/dev/}"
        fi
    done
    mapfile -d '' -t vestibule_variables </proc/self/environ
    for line in "${vestibule_variables[@]%%=*}"; do
        case $vestibule_expected in *" $line "*) ;; *) wall variable "${line//[^a-zA-Z0-9_]/?}" ;; esac
    done
}
