//! The conversation with the user's systemd over D-Bus, org.freedesktop.systemd1(5). In a process of
//! its own, that the supervisor ends when it takes too long.

use super::hierarchy;
use super::scope::{Answer, Question};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;
use protocol::Bus;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zbus::connection::Builder;
use zbus::message::Flags;
use zbus::{Connection, Error, Message, OwnedObjectPath, Variant};

/// The call that starts a scope.
const SYSTEMD: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const METHOD: &str = "StartTransientUnit";

/// How often another name is tried where one is taken.
const NAMES: u32 = 4;
/// Between two looks whether the processes have arrived.
const PAUSE: Duration = Duration::from_millis(1);
/// How many characters of what the bus says are passed on.
const QUOTED: usize = 200;

/// Connects and asks.
pub fn ask(bus: Bus, question: Question<'_>) -> Answer {
    let Some(path) = socket(bus) else { return Answer::Nobody };
    let Ok(stream) = UnixStream::connect(&path) else { return Answer::Nobody };
    // Process ids mean nothing to a systemd of another PID namespace, and could be those of others.
    match getsockopt(&stream, PeerCredentials) {
        Ok(peer) if peer.pid() > 0 => {}
        _ => return Answer::Failed("it lives in another PID namespace".to_owned()),
    }
    let answer = match question {
        Question::HasDelegated(folder) => {
            zbus::block_on(has_delegated(bus, stream, folder)).map(Answer::Delegated)
        }
        Question::Scope(ours, owner) => {
            zbus::block_on(start(bus, stream, ours, owner)).map(|name| arrive(ours, name))
        }
    };
    answer.unwrap_or_else(|error| failed(&error))
}

/// Waits until the processes are in the scope: the call returns before they have moved.
fn arrive(ours: &[Pid], name: String) -> Answer {
    loop {
        let mut folders = ours.iter().map(|pid| hierarchy::of(&pid.to_string()));
        let first = folders.next().flatten().filter(|folder| folder.ends_with(&name));
        match first {
            Some(folder) if folders.all(|other| other.as_ref() == Some(&folder)) => {
                return Answer::Scope { name, folder };
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Where the bus listens.
fn socket(bus: Bus) -> Option<PathBuf> {
    let named = std::env::var("DBUS_SESSION_BUS_ADDRESS").ok();
    match (bus, named.filter(|address| !address.is_empty())) {
        (Bus::Session, Some(address)) => session_path(&address),
        (Bus::Session, None) => Some(runtime_folder()?.join("bus")),
        (Bus::Private, _) => Some(runtime_folder()?.join("systemd/private")),
    }
}

/// The path of a session bus that has one; others are not systemd's.
fn session_path(address: &str) -> Option<PathBuf> {
    let path = address.strip_prefix("unix:path=")?;
    Some(PathBuf::from(path.split([',', ';']).next()?))
}

/// `XDG_RUNTIME_DIR`, or the usual folder: clients strip the variable.
fn runtime_folder() -> Option<PathBuf> {
    let uid = nix::unistd::getuid().as_raw();
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new("/run/user").join(uid.to_string()));
    let ours = std::fs::metadata(&folder).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
    ours.then_some(folder)
}

async fn connect(bus: Bus, stream: UnixStream) -> Result<Connection, Error> {
    let builder = Builder::unix_stream(stream);
    // systemd itself is at the other end of its private socket, and no bus that gives names.
    let builder = if bus == Bus::Private { builder.p2p() } else { builder };
    builder.build().await
}

/// Whether the unit that a folder belongs to is delegated.
async fn has_delegated(bus: Bus, stream: UnixStream, folder: &Path) -> Result<bool, Error> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = if name.ends_with(".scope") { "Scope" } else { "Service" };
    let connection = connect(bus, stream).await?;
    let (systemd, manager) = (Some(SYSTEMD), Some(MANAGER));
    let unit = connection.call_method(systemd, OBJECT, manager, "GetUnit", &(name,)).await?;
    let unit: OwnedObjectPath = unit.body().deserialize()?;
    let (properties, interface) = ("org.freedesktop.DBus.Properties", format!("{SYSTEMD}.{kind}"));
    let arguments = (interface.as_str(), "Delegate");
    let value = connection.call_method(systemd, &unit, Some(properties), "Get", &arguments).await?;
    let value = value.body();
    Ok(value.deserialize::<Variant<'_>>()? == Variant::Bool(true))
}

/// Starts the scope and returns its name.
async fn start(bus: Bus, stream: UnixStream, ours: &[Pid], owner: Pid) -> Result<String, Error> {
    let connection = connect(bus, stream).await?;
    // The process ids of both keep apart what two helpers of one server ask for.
    let mut number = ours.first().map_or(0, |helper| helper.as_raw().cast_unsigned());
    let last = number + NAMES;
    loop {
        let name = format!("mcp-sandbox-{owner}-{number}.scope");
        match start_unit(&connection, bus, &name, ours).await {
            Err(error) if is_taken(&error) && number < last => number += 1,
            Err(error) => return Err(error),
            Ok(()) => return Ok(name),
        }
    }
}

async fn start_unit(
    connection: &Connection,
    bus: Bus,
    name: &str,
    ours: &[Pid],
) -> Result<(), Error> {
    let pids: Vec<u32> = ours.iter().map(|pid| pid.as_raw().cast_unsigned()).collect();
    let properties = [
        ("Description", Variant::from("Vestibule: a server of MCP and its sandboxes")),
        ("PIDs", Variant::from(pids)),
        // Without delegation systemd ends what is left of a scope after an out-of-memory kill.
        ("Delegate", Variant::from(true)),
        // A scope that has failed would stay loaded, and keep its name.
        ("CollectMode", Variant::from("inactive-or-failed")),
    ];
    let auxiliary: [(&str, Vec<(&str, Variant<'_>)>); 0] = [];
    let arguments = (name, "fail", properties.as_slice(), auxiliary.as_slice());
    match bus {
        Bus::Session => {
            let (systemd, manager) = (Some(SYSTEMD), Some(MANAGER));
            connection.call_method(systemd, OBJECT, manager, METHOD, &arguments).await?;
        }
        // On its private socket systemd answers as a sender that is no unique name, which zbus takes
        // for a fault. So it is not asked to answer: that the processes arrive is the answer.
        Bus::Private => {
            let call = Message::method_call(OBJECT, METHOD).interface(MANAGER);
            let call = call.with_flags(Flags::NO_REPLY_EXPECTED).build(&arguments)?;
            connection.send(&call).await?;
        }
    }
    Ok(())
}

fn error_name(error: &Error) -> &str {
    match error {
        Error::MethodError(name, _, _) => name.as_str(),
        _ => "",
    }
}

fn is_taken(error: &Error) -> bool {
    error_name(error) == "org.freedesktop.systemd1.UnitExists"
}

fn failed(error: &Error) -> Answer {
    const NOBODY: [&str; 2] =
        ["org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"];
    if NOBODY.contains(&error_name(error)) {
        return Answer::Nobody;
    }
    let text = error.to_string();
    let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    Answer::Failed(text.chars().map(harmless).take(QUOTED).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_bus_has_a_path_or_is_not_asked() {
        let path = |address| session_path(address).map(|path| path.display().to_string());
        assert_eq!(path("unix:path=/run/user/1000/bus"), Some("/run/user/1000/bus".to_owned()));
        assert_eq!(path("unix:path=/tmp/b,guid=12;tcp:host=x"), Some("/tmp/b".to_owned()));
        assert_eq!(path("unix:abstract=/tmp/dbus-x"), None);
        assert_eq!(path("autolaunch:"), None);
    }

    #[test]
    fn what_the_bus_says_cannot_break_a_line() {
        let error = Error::Failure(format!("a\nb\u{1b}[31m{}", "x".repeat(1000)));
        let Answer::Failed(text) = failed(&error) else { unreachable!() };
        assert!(!text.contains(['\n', '\u{1b}']) && text.chars().count() <= QUOTED, "{text}");
    }
}
