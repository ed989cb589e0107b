# The kinds of hosts, sourced by `run`: how the guest becomes one, and what Vestibule must say there.
#
# host NAME EXPECTED OPTION...: EXPECTED is the isolation level of every run, or `blocked: PART` with a
# part of the refusal, or `doctor: LINE` for a line that the doctor must print beside ordinary runs.
# The options are those of `boot`.

rootfs="rootfs: this machine's /usr, read-only"
native="native ($rootfs)"
without="native-degraded (limits not applied: cpu, memory; per-process stand-ins: pids, data"
no_bus='rm -f /usr/lib/systemd/user/dbus.{socket,service} /usr/lib/systemd/user/sockets.target.wants/dbus.socket'
# From systemd 256 on it needs the second word, and from 258 on nothing brings cgroup v1 back.
legacy='systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1'
# What systemd before 252 delegates to users.
no_cpu='mkdir -p /etc/systemd/system/user@.service.d
printf "[Service]\nDelegate=\nDelegate=pids memory\n" >/etc/systemd/system/user@.service.d/delegate.conf
systemctl daemon-reload'
# An hour forth and an hour back, while programs run: no deadline may follow it.
jumps='(while :; do for step in + -; do sleep 0.2; date -s "${step}1 hour" >/dev/null; done; done) &'
no_manager='rm -f /var/lib/systemd/linger/dev; systemctl mask --runtime user@.service user-runtime-dir@.service'
# Ubuntu's restriction is a patch of its own. A profile that grants all but capabilities to what runs
# from the job's folder shows the same: the namespaces are made, and give no power.
like_ubuntu='{
    echo "profile like_ubuntu /job/share/** {"
    echo " file, network, unix, dbus, signal, ptrace, mount, umount, pivot_root,"
    [ ! -e /sys/kernel/security/apparmor/features/namespaces/mask ] || echo " userns, mqueue, io_uring,"
    echo "}"
} >/run/like_ubuntu; apparmor_parser -Kr /run/like_ubuntu'

hosts() {
    host full "$native"
    host no-session-bus "$native" --setup "$no_bus"
    host clock-jumps "$native" --setup "$jumps"
    host no-cpu-controller "native-degraded (limits not applied: cpu; cpu is not delegated; $rootfs)" \
        --setup "$no_cpu"
    host no-user-manager "$without; no systemd user bus; $rootfs)" \
        --setup "$no_manager" --no-user-manager
    host cgroup-v1 "$without; no cgroup v2 at /sys/fs/cgroup; $rootfs)" \
        --append "$legacy systemd.legacy_systemd_cgroup_controller=1"
    host cgroup-hybrid "$without; cgroup v1 has the controllers; $rootfs)" --append "$legacy"
    host no-landlock 'doctor: missing  Landlock' --append lsm=yama,apparmor
    host userns-off 'blocked: kernel.unprivileged_userns_clone is 0' \
        --setup 'sysctl -qw kernel.unprivileged_userns_clone=0'
    host userns-none 'blocked: user.max_user_namespaces is 0' \
        --setup 'sysctl -qw user.max_user_namespaces=0'
    host userns-powerless 'blocked: AppArmor lets user namespaces be made but gives no capabilities' \
        --setup "$like_ubuntu"
}
