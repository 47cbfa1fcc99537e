//! One HTTP/1.1 exchange after the other over the daemon's socket. Not the typed client, which would quietly
//! try again: here every lost answer is to be seen.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// Names the request in the event log, and as its idempotency key; empty for a read.
    pub(crate) name: String,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: "GET",
            path: path.into(),
            name: String::new(),
            body: Value::Null,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

pub(crate) struct Connection(BufReader<UnixStream>);

impl Connection {
    pub(crate) fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// An error means that the answer is lost, not that nothing happened.
    pub(crate) fn send(&mut self, request: &Request) -> io::Result<Answer> {
        let body = if request.body.is_null() {
            String::new()
        } else {
            request.body.to_string()
        };
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\ncontent-type: application/json\r\n",
            request.method,
            request.path,
            body.len()
        );
        if !request.name.is_empty() {
            head += &format!(
                "skein-actor: agent:{0}\r\nidempotency-key: {0}\r\n",
                request.name
            );
        }
        let text = format!("{head}\r\n{body}");
        self.0.get_mut().write_all(text.as_bytes())?;
        match self.read() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("{} {} was not answered", request.method, request.path)
            }
            other => other,
        }
    }

    fn read(&mut self) -> io::Result<Answer> {
        let status = self.line()?;
        let status = status
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        let (mut length, mut replayed) = (0, false);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                Some(("content-length", value)) => {
                    length = value.parse().map_err(|_| io::ErrorKind::InvalidData)?;
                }
                Some(("skein-replayed", _)) => replayed = true,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer {
            status,
            replayed,
            body: serde_json::from_slice(&body)?,
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Reads something that must be there.
    pub(crate) fn get(&mut self, path: &str) -> Value {
        let answer = self
            .send(&Request::get(path))
            .expect("nobody kills the daemon now");
        assert!(answer.is_success(), "GET {path}: {answer:?}");
        answer.body
    }

    /// All pages of a list; `path` ends in its query.
    pub(crate) fn list(&mut self, path: &str) -> Vec<Value> {
        let (mut all, mut cursor) = (vec![], String::new());
        loop {
            let mut page = self.get(&format!("{path}&limit=1000{cursor}"));
            if let Value::Array(items) = page["data"].take() {
                all.extend(items);
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }
}
