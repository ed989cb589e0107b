# The first program of a container: bash NAME SECONDS PROVEN VARIABLES COMMAND...
# Goes no further where the container is not as PROVEN, the walls that a probe found: nobody but the engine
# has been here so far. Then starts a timer that ends everything should nobody else have done so: a child
# of the container's init and not of the code, which would else find it among its own. Leaves behind what
# only the engine needed, writes the mark, and becomes the interpreter. The limits are the native ones,
# where the engine's own are not lower already.
mark=$1 seconds=$2 proven=$3 kept=" $4 "
shift 4
look
# The same in another order is the same: Podman's mounts have none.
if [ -n "$proven" ] && [ "$walls" != "$proven" ]; then
    [ ${#walls} = ${#proven} ] || differs="something is missing"
    mapfile -t lines <<<"${walls:1:${#walls}-2}"
    for line in "${lines[@]}"; do
        case $proven in *$'\n'"$line"$'\n'*) ;; *) differs=$line ;; esac
    done
    if [ -n "${differs-}" ]; then
        printf '%s differs: %s\n' "$mark" "$differs" >&2
        exit 1
    fi
fi
( (exec </dev/null >/dev/null 2>&1; sleep "$seconds"; kill -KILL -1) & )
for name in "${variables[@]%%=*}"; do
    case $kept in *" $name "*) ;; *) unset "$name" 2>/dev/null ;; esac
done
unset OLDPWD
{ ulimit -c 0; ulimit -Sn 1024; ulimit -Hn 4096; } 2>/dev/null
umask 022
printf '%s\n' "$mark" >&2
exec "$@"
