# Says what is in force here, in lines that probe.rs reads. Builtins of bash and coreutils alone.
say() { printf '%s\n' "$*"; }
while read -r name value; do
    case $name in Uid: | Cap*: | NoNewPrivs: | Seccomp:) say status "$name" $value ;; esac
done </proc/self/status
while read -r name rest; do
    case $name in Iface) ;; *) say route "$name" ;; esac
done </proc/net/route
if [ -e /proc/net/ipv6_route ]; then
    while read -r line; do say route "${line##* }"; done </proc/net/ipv6_route
fi
while read -r _ _ _ _ place options rest; do
    say mount "$place" "$options" "${rest#*- }"
    case ",$options," in
    *,rw,*) case $place in /workspace | /proc | /proc/*) continue ;; esac
        if [ -d "$place" ] && (: >"$place/.vestibule-probe") 2>/dev/null; then
            rm -f "$place/.vestibule-probe"
            say writable "$place"
        fi ;;
    esac
done </proc/self/mountinfo
for place in / /etc /usr /sandbox; do
    if (: >"$place/.vestibule-probe") 2>/dev/null; then
        rm -f "$place/.vestibule-probe"
        say "root-writable" "$place"
    fi
done
: >/tmp/probe && chmod 4755 /tmp/probe 2>/dev/null && say set-id
for file in memory.max memory.swap.max cpu.max pids.max memory/memory.limit_in_bytes \
    memory/memory.memsw.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us pids/pids.max; do
    value=
    { read -r value </sys/fs/cgroup/$file; } 2>/dev/null
    [ -z "$value" ] || say cgroup "$file" $value
done
while read -r place rest; do
    case $place in Filename) ;; *) say swap "$place" ;; esac
done </proc/swaps
for program in bash python3 node; do
    command -v "$program" >/dev/null && say program "$program"
done
token=
{ read -r token </workspace/"$file_in"; } 2>/dev/null
say read "$token"
{ say "$token" >/workspace/"$file_out"; } 2>/dev/null && say wrote
say done
