//! The two output pipes of a process of ours.

use protocol::Stream;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// Standard output and standard error, until both have ended.
pub struct Pipes {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Read into, one for each: on the heap, since a future that held them would be moved about with
    /// them, on stacks of 1 MiB on Windows.
    buffers: [Vec<u8>; 2],
}

impl Pipes {
    /// The pipes of a process that was started with both.
    pub fn new(child: &mut Child) -> Pipes {
        let buffers = [vec![0; CHUNK], vec![0; CHUNK]];
        Pipes { stdout: child.stdout.take(), stderr: child.stderr.take(), buffers }
    }

    /// Reads once from whichever has something, and hands that on; whether one is still open.
    pub async fn read(&mut self, mut take: impl FnMut(Stream, &[u8])) -> bool {
        let Pipes { stdout, stderr, buffers: [out, err] } = self;
        tokio::select! {
            read = read_some(stdout, out), if stdout.is_some() => match read {
                0 => *stdout = None,
                count => take(Stream::Stdout, &out[..count]),
            },
            read = read_some(stderr, err), if stderr.is_some() => match read {
                0 => *stderr = None,
                count => take(Stream::Stderr, &err[..count]),
            },
            else => {}
        }
        stdout.is_some() || stderr.is_some()
    }
}

/// An error on a pipe of ours is its end.
async fn read_some(stream: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}
