# The four kinds of engines, started by hand on private sockets and folders. Sourced, with `$work` set to a
# folder that others can enter, and `$person` to the user whose engines the rootless ones are. Each
# `start_KIND` sets `engine` to the variables that a client needs; `stop_engines` ends all of them.

person_home() { getent passwd "$person" | cut -d: -f6; }

# As that user, with what an MCP client passes on, and what stands before the command.
as_person() {
    setpriv --reuid "$person" --regid "$person" --clear-groups --inh-caps=-all -- env -i \
        HOME="$(person_home)" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin USER="$person" \
        LOGNAME="$person" SHELL=/bin/bash TERM=dumb "$@"
}

# wait_for SECONDS COMMAND...
wait_for() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

# No bridge and no packet filter: the host's network is not touched.
docker_options=(--bridge none --iptables=false --ip6tables=false --ip-forward=false --storage-driver overlay2)

start_docker() {
    mkdir -p "$work/docker"
    echo 'disabled_plugins = ["io.containerd.grpc.v1.cri"]' >"$work/docker/containerd.toml"
    # By itself, as a service is: it outlives a daemon that is killed.
    PATH=/usr/bin:/usr/sbin:/bin:/sbin containerd --config "$work/docker/containerd.toml" \
        --root "$work/docker/containerd" --state "$work/docker/state" \
        --address "$work/docker/containerd.sock" >>"$work/containerd.log" 2>&1 </dev/null &
    echo $! >"$work/docker/containerd.pid"
    disown
    wait_for 30 test -S "$work/docker/containerd.sock" || return 1
    PATH=/usr/bin:/usr/sbin:/bin:/sbin dockerd --containerd "$work/docker/containerd.sock" --data-root "$work/docker/data" --exec-root "$work/docker/exec" \
        --pidfile "$work/docker/pid" --host "unix://$work/docker/docker.sock" --ip-masq=false \
        --exec-opt native.cgroupdriver=cgroupfs "${docker_options[@]}" \
        >>"$work/docker.log" 2>&1 </dev/null &
    disown
    engine=("DOCKER_HOST=unix://$work/docker/docker.sock")
    wait_for 60 env "${engine[@]}" docker version || return 1
    # For this tier's user alone, as the group `docker` would.
    chgrp "$(id -g "$person")" "$work/docker/docker.sock" && chmod 660 "$work/docker/docker.sock"
}

start_docker_rootless() {
    local home=$(person_home)
    local run=$home/run
    as_person mkdir -p -m 700 "$run" "$home/docker"
    as_person "XDG_RUNTIME_DIR=$run" rootlesskit --net=host --copy-up=/etc --copy-up=/run \
        --state-dir="$run/rootlesskit" sh -c 'rm -f /run/docker /run/containerd /run/xtables.lock; exec dockerd "$@"' sh \
        --rootless --data-root "$home/docker" --exec-root "$run/exec" --pidfile "$run/docker.pid" \
        --host "unix://$run/docker.sock" "${docker_options[@]}" >>"$work/docker-rootless.log" 2>&1 </dev/null &
    engine=("DOCKER_HOST=unix://$run/docker.sock" "XDG_RUNTIME_DIR=$run")
    wait_for 60 as_person "${engine[@]}" docker version
}

# A registry of this machine may speak plain HTTP, on any port, as Docker has it by itself.
registries=$'[[registry]]\nlocation = "127.0.0.1"\ninsecure = true'

# Root's Podman is reached through its socket: Vestibule refuses root. A small machine's root may not
# raise its own limits, which Podman's service asks for.
start_podman() {
    mkdir -p "$work/podman"
    cat >"$work/podman/containers.conf" <<EOF
[engine]
runtime = "runc-without-limits"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
runc-without-limits = ["$here/runc-without-limits"]
EOF
    echo "$registries" >"$work/podman/registries.conf"
    CONTAINERS_REGISTRIES_CONF=$work/podman/registries.conf \
        CONTAINERS_CONF=$work/podman/containers.conf podman --root "$work/podman/data" --runroot "$work/podman/run" \
        --storage-driver overlay system service --time=0 "unix://$work/podman/podman.sock" \
        >>"$work/podman.log" 2>&1 </dev/null &
    disown
    echo $! >"$work/podman/pid"
    engine=("CONTAINER_HOST=unix://$work/podman/podman.sock")
    wait_for 60 env "${engine[@]}" podman info || return 1
    chgrp "$(id -g "$person")" "$work/podman/podman.sock" && chmod 660 "$work/podman/podman.sock"
}

# Nothing to start. crun refuses a host that has both versions of cgroups.
start_podman_rootless() {
    local home=$(person_home)
    as_person mkdir -p "$home/.config/containers"
    as_person tee "$home/.config/containers/storage.conf" >/dev/null <<<$'[storage]\ndriver = "overlay"'
    as_person tee "$home/.config/containers/containers.conf" >/dev/null \
        <<<$'[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"'
    as_person tee "$home/.config/containers/registries.conf" >/dev/null <<<"$registries"
    engine=()
    as_person podman info >/dev/null 2>>"$work/podman-rootless.log"
}

# load KIND: both images. Podman puts `localhost` before the name.
load() {
    local name
    for name in python node; do
        as_person "${engine[@]}" "${1%%-*}" import --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' \
            "$work/images/$name.tar" "localhost/vestibule-test-$name:1" >/dev/null 2>>"$work/load.log" || return 1
    done
}

stop_engines() {
    local pid
    if id "$person" >/dev/null 2>&1; then
        as_person podman system reset --force >/dev/null 2>&1
        pkill -KILL -u "$person"
    fi
    for pid in "$work"/docker/pid "$work"/docker/containerd.pid "$work"/podman/pid; do
        [ -s "$pid" ] && kill "$(<"$pid")" 2>/dev/null && wait_for 20 dead "$(<"$pid")"
    done
    # What a daemon that was killed has left, and one that does not end in that time. Not ourselves,
    # whose arguments name no folder below this one.
    pkill -KILL -f -- "$work/(docker|podman)/"
    wait_for 10 dead_all "$work/(docker|podman)/"
    findmnt -rno TARGET | grep -F "$work/" | sort -r | xargs -r umount -l
    rmdir /sys/fs/cgroup/*/docker /sys/fs/cgroup/docker 2>/dev/null
}

dead() { ! kill -0 "$1" 2>/dev/null; }
dead_all() { ! pgrep -f -- "$1" >/dev/null; }
