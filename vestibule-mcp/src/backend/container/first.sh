# The first program of a container: bash NAME SECONDS PROVEN VARIABLES OTHERS COMMAND...
# VARIABLES are those that the code is given, OTHERS those that may be there beside them.
#
# Goes no further where the container is not as PROVEN, the walls that a probe found: nobody but the engine
# has been here so far, and no folder that code could write has been looked for a program. Then starts a
# timer that ends everything should nobody else have done so: a child of the container's init and not of the
# code, which would else find it among its own. Leaves behind what only the engine needed, writes the mark,
# and becomes the interpreter. The limits are the native ones, where the engine's own are not lower already.
vestibule_mark=$1 vestibule_seconds=$2 vestibule_proven=$3
vestibule_kept=" $4 " vestibule_expected=" $4 $5 " vestibule_differs=
shift 5
look
# The same in another order is the same: Podman's mounts have none.
if [ -n "$vestibule_proven" ] && [ "$vestibule_walls" != "$vestibule_proven" ]; then
    [ ${#vestibule_walls} = ${#vestibule_proven} ] || vestibule_differs="something is missing"
    mapfile -t vestibule_lines <<<"${vestibule_walls:1:${#vestibule_walls}-2}"
    for vestibule_line in "${vestibule_lines[@]}"; do
        case $vestibule_proven in *$'\n'"$vestibule_line"$'\n'*) ;; *) vestibule_differs=$vestibule_line ;; esac
    done
    if [ -n "$vestibule_differs" ]; then
        printf '%s differs: %s\n' "$vestibule_mark" "$vestibule_differs" >&2
        exit 1
    fi
fi
( (exec </dev/null >/dev/null 2>&1; sleep "$vestibule_seconds"; kill -KILL -1) & )
for vestibule_line in "${vestibule_variables[@]%%=*}"; do
    case $vestibule_kept in *" $vestibule_line "*) ;; *) unset "$vestibule_line" 2>/dev/null ;; esac
done
unset OLDPWD
{ ulimit -c 0; ulimit -r 0; ulimit -Sn 1024; ulimit -Hn 4096; } 2>/dev/null
umask 022
# A probe's own programs are not to be found in the workspace either.
[ -z "$vestibule_proven" ] || cd /workspace || exit 1
[ -n "$vestibule_proven" ] || printf '%s' "${vestibule_walls:1}"
printf '%s\n' "$vestibule_mark" >&2
exec "$@"
