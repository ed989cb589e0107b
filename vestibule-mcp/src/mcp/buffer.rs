//! A client that only listens, for tests.

use super::stdio::Output;
use serde_json::Value;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// What the server said so far.
#[derive(Clone, Default)]
pub struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// Every line, as JSON, once what was sent to `output` is written.
    pub async fn heard(&self, output: &Output) -> Vec<Value> {
        output.written().await;
        let bytes = self.0.lock().expect("not poisoned").clone();
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
