//! A registry for tests: a server on this machine that answers by a script, and a folder to work in.

use crate::setup::oci::Descriptor;
use crate::store::digest::Digest;
use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What a client asked.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// What the server says. Without a length it ends by closing the connection.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    announced: Option<usize>,
    trailing: bool,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Reply {
        let body = body.into();
        let announced = Some(body.len());
        Reply { status, headers: Vec::new(), body, announced, trailing: false }
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Reply {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Announces the whole body and breaks off after `count` bytes.
    pub fn cut(mut self, count: usize) -> Reply {
        self.body.truncate(count);
        self
    }

    /// Announces nothing.
    pub fn unannounced(mut self) -> Reply {
        self.announced = None;
        self
    }

    /// Sends trailers after the body for as long as the client stays.
    pub fn trailing(mut self) -> Reply {
        self.trailing = true;
        self.unannounced().header("Transfer-Encoding", "chunked")
    }

    /// The part of a blob that a request asks for, or all of it.
    pub fn ranged(body: &[u8], request: &Request) -> Reply {
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes="));
        let Some(start) = range.map(|range| range.trim_end_matches('-').parse().unwrap()) else {
            return Reply::new(200, body);
        };
        let (length, part): (usize, &[u8]) = (body.len(), &body[start..]);
        let range = format!("bytes {start}-{}/{length}", length - 1);
        Reply::new(206, part).header("Content-Range", range)
    }
}

/// The server.
pub struct Fake {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// A server of plain HTTP.
    pub fn new(script: impl Fn(&Request) -> Reply + Send + 'static) -> Fake {
        Fake::serve(script, None)
    }

    /// A server of HTTPS, with a certificate of [`AUTHORITY`] for `localhost`, `127.0.0.1` and
    /// `registry.invalid`.
    pub fn tls(script: impl Fn(&Request) -> Reply + Send + 'static) -> Fake {
        use rustls::pki_types::pem::PemObject;
        use rustls::pki_types::{CertificateDer, PrivateKeyDer};
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Fake::serve(script, Some(Arc::new(config)))
    }

    /// A proxy that makes one tunnel at a time, all of them to `target`.
    pub fn proxy(target: SocketAddr) -> Fake {
        Fake::listen(move |mut stream, seen| {
            let request = hear(&mut stream)?;
            let connect = request.method == "CONNECT";
            seen.lock().unwrap().push(request);
            if !connect {
                return Ok(());
            }
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            let far = TcpStream::connect(target)?;
            let (mut near, mut out) = (stream.try_clone()?, far.try_clone()?);
            let there = thread::spawn(move || {
                let _ = io::copy(&mut near, &mut out);
                let _ = out.shutdown(Shutdown::Write);
            });
            let _ = io::copy(&mut &far, &mut stream);
            let _ = stream.shutdown(Shutdown::Both);
            let _ = there.join();
            Ok(())
        })
    }

    fn serve(
        script: impl Fn(&Request) -> Reply + Send + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Fake {
        Fake::listen(move |stream, seen| answer(stream, tls.as_ref(), &script, seen))
    }

    fn listen(
        serve: impl Fn(TcpStream, &Mutex<Vec<Request>>) -> io::Result<()> + Send + 'static,
    ) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (seen, stopped) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                // A client that goes away is part of many scripts.
                let _ = serve(stream, &seen);
            }
        });
        Fake { address, requests, stop, thread: Some(thread) }
    }

    /// Its address as the setting for a mirror.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// What it was asked for so far.
    pub fn targets(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.target).collect()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(
    mut stream: TcpStream,
    tls: Option<&Arc<rustls::ServerConfig>>,
    script: &impl Fn(&Request) -> Reply,
    seen: &Mutex<Vec<Request>>,
) -> io::Result<()> {
    let Some(tls) = tls else { return talk(&mut stream, script, seen) };
    let mut connection =
        rustls::ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
    let mut stream = rustls::Stream::new(&mut connection, &mut stream);
    talk(&mut stream, script, seen)?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// One request and its reply; what is no HTTP is answered as Go's server does.
fn talk(
    stream: &mut (impl Read + Write),
    script: &impl Fn(&Request) -> Reply,
    seen: &Mutex<Vec<Request>>,
) -> io::Result<()> {
    let mut first = [0];
    stream.read_exact(&mut first)?;
    if !first[0].is_ascii_uppercase() {
        return stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
    }
    let request = hear(&mut (&first[..]).chain(&mut *stream))?;
    let reply = script(&request);
    seen.lock().unwrap().push(request);
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(length) = reply.announced {
        head += &format!("Content-Length: {length}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if reply.trailing {
        stream.write_all(format!("{:x}\r\n", reply.body.len()).as_bytes())?;
        stream.write_all(&[&reply.body, &b"\r\n0\r\n"[..]].concat())?;
        loop {
            stream.write_all(b"X: y\r\n")?;
            thread::sleep(Duration::from_millis(1));
        }
    }
    stream.write_all(&reply.body)?;
    stream.flush()
}

/// Reads a request.
fn hear(stream: &mut impl Read) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut request = Request {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        ..Request::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        request.headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.body = String::from_utf8(body).unwrap();
    Ok(request)
}

/// A blob of these bytes.
pub fn descriptor(bytes: &[u8]) -> Descriptor {
    let digest = Digest::of(bytes).to_string();
    serde_json::from_value(serde_json::json!({"digest": digest, "size": bytes.len()})).unwrap()
}

/// A folder that goes when its test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("registry-{name}-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An authority made for these tests alone, and a certificate of it; valid until 2126.
pub const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBnjCCAUOgAwIBAgIUKDoFl7QtTRgSEiS+QE3Kk+zsTy4wCgYIKoZIzj0EAwIw
IzEhMB8GA1UEAwwYdmVzdGlidWxlIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEzMDE1
MzI0M1oYDzIxMjYxMTA2MTUzMjQzWjAjMSEwHwYDVQQDDBh2ZXN0aWJ1bGUgdGVz
dCBhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQFUswxDXoXhAzE
gmjffOl/E/Y1jY2ic4bp4IJu0GS3POBAI3dFwtGtU9DOzcMSUYvQ8jq9WYVQCNJX
d1Je7sjJo1MwUTAdBgNVHQ4EFgQUXw+RepAyoVolvAbceNHM8+QL6R4wHwYDVR0j
BBgwFoAUXw+RepAyoVolvAbceNHM8+QL6R4wDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNJADBGAiEAu2X5jK67lXeQOdVyekPgoxEda/8T6RkpQyJrz4E1GHAC
IQCGx3MDtdV0WZDf5dLHe+mULeLsDnIQ9gE6TowDGeM01A==
-----END CERTIFICATE-----
";

const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIB0DCCAXagAwIBAgIUYM1w2+LZA3TUUTE6UgNuT9C9m0IwCgYIKoZIzj0EAwIw
IzEhMB8GA1UEAwwYdmVzdGlidWxlIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEzMDE1
NDQwOVoYDzIxMjYxMTA2MTU0NDA5WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAAS7cNH+JpXYRqNk+D2DKVq8sCN9Eay32EIe
d64PnTrX1kEU+X1pkKyRaykdmE0s5jxoNpiccySfe2EpRY9LYPuzo4GUMIGRMCwG
A1UdEQQlMCOCCWxvY2FsaG9zdIIQcmVnaXN0cnkuaW52YWxpZIcEfwAAATAMBgNV
HRMBAf8EAjAAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB0GA1UdDgQWBBSwVC376AVc
aIBDP6HJE1hbFfQHnjAfBgNVHSMEGDAWgBRfD5F6kDKhWiW8Btx40czz5AvpHjAK
BggqhkjOPQQDAgNIADBFAiEAkHK7+coP2OnDbN+mhek7zzOFXQnV4F73W2X3Edq2
+wACIFUmGkzgSTE45V2/EYN1lxxfKt97ewbGtWLppqw8AUJ1
-----END CERTIFICATE-----
";

const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0Pxq8bDK8xAPFazi
Cy84hhUYlwOv1oOJe7is3qfda6KhRANCAAS7cNH+JpXYRqNk+D2DKVq8sCN9Eay3
2EIed64PnTrX1kEU+X1pkKyRaykdmE0s5jxoNpiccySfe2EpRY9LYPuz
-----END PRIVATE KEY-----
";
