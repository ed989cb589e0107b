# Tries what can be done here and says so, in lines that probe.rs reads beside those of walls.sh. Builtins of
# bash and coreutils alone.
say() { printf '%s\n' "$*"; }
writes() { (: >"$1/.vestibule-probe") 2>/dev/null && rm -f "$1/.vestibule-probe"; }
while read -r _ _ _ _ place options _; do
    case ",$options," in
    *,rw,*) case $place in /workspace | /workspace/* | /proc | /proc/*) continue ;; esac
        printf -v folder '%b' "${place//\\/\\0}"
        if [ -d "$folder" ]; then
            writes "$folder" && say writable "$place"
        elif [ -f "$folder" ] && (: >>"$folder") 2>/dev/null; then
            say writable "$place"
        fi ;;
    esac
done </proc/self/mountinfo
for place in / /etc /usr /sandbox; do
    writes "$place" && say root-writable "$place"
done
: >/tmp/probe && chmod 4755 /tmp/probe 2>/dev/null && say set-id
for program in bash python3 node; do
    command -v "$program" >/dev/null && say program "$program"
done
{ read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null && say boot "$boot"
say workspace "$(stat -c '%d:%i' /workspace)"
[ -w /workspace ] && say workspace-writable
if [ -n "$file_in" ]; then
    token=
    { read -r token </workspace/"$file_in"; } 2>/dev/null
    say read "$token"
    { say "$token" >/workspace/"$file_out"; } 2>/dev/null && say wrote
fi
say done
