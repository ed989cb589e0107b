//! Older kernels degrade as documented: an outer filter answers as they would.

use tests::{Outcome, Place};

tests::tests![
    before_5_11_without_close_range_cloexec,
    before_5_12_without_mount_setattr,
    before_5_13_without_landlock,
    before_5_9_nothing_runs,
];

fn run_below(rules: &[&str]) -> (Place, tests::Reply) {
    let place = Place::new();
    let helper = place.constrained_jail(rules);
    let mut server = place.server().set("VESTIBULE_JAIL", helper).start();
    let code = "import os\n\
        print(sorted(n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))\n\
        for p in ('/usr/probe', '/etc/probe', '/probe'):\n    \
            try: open(p, 'w'); print('written', p)\n    \
            except OSError: pass";
    let reply = server.run("python", code);
    server.close();
    place.assert_nothing_left();
    (place, reply)
}

fn before_5_11_without_close_range_cloexec() -> Outcome {
    let (_place, reply) = run_below(&["close_range:2&4=EINVAL"]);
    assert_eq!(reply.success(), "['0', '1', '2']");
    Ok(())
}

fn before_5_12_without_mount_setattr() -> Outcome {
    let (_place, reply) = run_below(&["mount_setattr=ENOSYS"]);
    assert_eq!(reply.success(), "['0', '1', '2']", "the root is writable");
    assert!(reply.isolation().starts_with("native"), "{}", reply.text);
    Ok(())
}

fn before_5_13_without_landlock() -> Outcome {
    let rules = [
        "landlock_create_ruleset=ENOSYS",
        "landlock_add_rule=ENOSYS",
        "landlock_restrict_self=ENOSYS",
    ];
    let (_place, reply) = run_below(&rules);
    assert_eq!(reply.success(), "['0', '1', '2']");
    Ok(())
}

fn before_5_9_nothing_runs() -> Outcome {
    let (_place, reply) = run_below(&["close_range=ENOSYS"]);
    reply.assert_blocked(&["5.9"]);
    Ok(())
}
