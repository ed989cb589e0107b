//! A run has a loopback interface of its own and nothing else.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;
use tests::{Outcome, Place};

tests::tests![
    loopback_is_the_only_interface_and_works,
    nothing_outside_can_be_reached,
    the_hosts_listeners_are_out_of_reach,
    names_are_not_resolved,
];

fn loopback_is_the_only_interface_and_works() -> Outcome {
    let place = Place::new();
    let code = r"
import socket, threading
print(*[name for _, name in socket.if_nameindex()])
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    server = socket.socket(family)
    server.bind((address, 0)); server.listen()
    threading.Thread(target=lambda: server.accept()[0].sendall(b'pong')).start()
    client = socket.create_connection(server.getsockname()[:2])
    print(client.recv(4))
";
    let got = place.server().start().run("python", code).success();
    assert_eq!(got, "lo\nb'pong'\nb'pong'");
    Ok(())
}

fn nothing_outside_can_be_reached() -> Outcome {
    let place = Place::new();
    let code = r"
import errno, socket
for address in ('1.1.1.1', '10.0.0.1', '169.254.169.254', '2606:4700:4700::1111'):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET)
    s.settimeout(3)
    try: s.connect((address, 53)); print('reached', address)
    except OSError as e: print(errno.errorcode[e.errno])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.sendto(b'x', ('8.8.8.8', 53)); print('sent')
except OSError as e: print(errno.errorcode[e.errno])
";
    let got = place.server().start().run("python", code).success();
    assert_eq!(got, ["ENETUNREACH"; 5].join("\n"));
    Ok(())
}

fn the_hosts_listeners_are_out_of_reach() -> Outcome {
    let place = Place::new();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("its address").port();
    let name = format!("vtest-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a short name");
    let unix = UnixListener::bind_addr(&address).expect("an abstract socket");
    let code = format!(
        "import socket\n\
         for family, address in ((socket.AF_INET, ('127.0.0.1', {port})), (socket.AF_UNIX, '\\0{name}')):\n    \
             try: socket.socket(family).connect(address); print('reached')\n    \
             except ConnectionRefusedError: print('refused')"
    );
    assert_eq!(place.server().start().run("python", &code).success(), "refused\nrefused");
    tcp.set_nonblocking(true).expect("ours");
    unix.set_nonblocking(true).expect("ours");
    std::thread::sleep(Duration::from_millis(20));
    assert!(tcp.accept().is_err() && unix.accept().is_err(), "the sandbox reached the host");
    Ok(())
}

fn names_are_not_resolved() -> Outcome {
    let place = Place::new();
    let code = "import socket\n\
                try: print(socket.getaddrinfo('example.org', 80))\n\
                except socket.gaierror: print('no')";
    assert_eq!(place.server().start().run("python", code).success(), "no");
    Ok(())
}
