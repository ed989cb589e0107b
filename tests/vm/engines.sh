# The engines of the container backend, sourced by `run` and by what makes their image: how each is started,
# and what it must give.

kinds=(docker podman-rootless)

# starts KIND: what root does first. An ordinary user's Podman has no daemon.
starts() {
    case $1 in
    docker) echo 'systemctl start docker' ;;
    *) echo : ;;
    esac
}

# engine KIND LEVEL CHECKS OPTION...: LEVEL is the isolation of every run, CHECKS choose from those of
# tests/container by the beginnings of their names, and the options are those of `boot`. A container takes
# an emulator five to ten seconds, so only what differs from host to host is looked at: limits and usage.
engines() {
    engine podman-rootless container 'level limit-memory limit-pids limit-cpu'
    engine docker container 'level-usage limit-memory-in-a-child limit-pids'
    engine podman-rootless 'container-degraded (limits not applied: cpu; their controllers are not delegated to rootless Podman)' \
        'limit-pids limit-cpu' --setup "$no_cpu"
}
