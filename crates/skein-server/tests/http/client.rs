//! HTTP/1.1 by hand, so that a test can send malformed requests.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than any deadline of the daemon; a longer wait is a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// One answer, headers in the order they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![],
            body: vec![],
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn post(path: &str, body: &Value) -> Self {
        Self::new("POST", path).json(body)
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json")
            .body(body.to_string().into_bytes())
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn tenant(self, tenant: &str) -> Self {
        self.header("skein-tenant", tenant)
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Over TCP, with the host that belongs to the address.
    pub(crate) fn over_tcp(&self, address: &str) -> Response {
        let mut call = self.clone();
        if !call.has("host") {
            call = call.header("host", address);
        }
        call.over(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn over(&self, stream: impl Connection) -> Response {
        let answer = self.bytes_over(stream);
        Response::parse(&answer).unwrap_or_else(|| {
            panic!(
                "no answer to {self:?}: {:?}",
                String::from_utf8_lossy(&answer)
            )
        })
    }

    /// None if the server ends before it has answered.
    pub(crate) fn try_over(&self, stream: impl Connection) -> Option<Response> {
        Response::parse(&self.bytes_over(stream))
    }

    fn bytes_over(&self, stream: impl Connection) -> Vec<u8> {
        let mut call = self.clone().header("connection", "close");
        if !call.has("host") {
            call = call.header("host", "skein");
        }
        raw(stream, &call.bytes())
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n == name)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        let length = self.body.len();
        if !self.has("content-length") && (length > 0 || self.method != "GET") {
            out.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
        out
    }
}

pub(crate) trait Connection: Read + Write {
    fn set_patience(&self, patience: Duration);
}

impl Connection for UnixStream {
    fn set_patience(&self, patience: Duration) {
        self.set_read_timeout(Some(patience)).unwrap();
        self.set_write_timeout(Some(patience)).unwrap();
    }
}

impl Connection for TcpStream {
    fn set_patience(&self, patience: Duration) {
        self.set_read_timeout(Some(patience)).unwrap();
        self.set_write_timeout(Some(patience)).unwrap();
    }
}

/// Sends bytes and reads until the other side closes.
pub(crate) fn raw(mut stream: impl Connection, bytes: &[u8]) -> Vec<u8> {
    stream.set_patience(PATIENCE);
    // The daemon may answer and close before it has read everything; its answer counts.
    let _ = stream.write_all(bytes);
    read_all(stream)
}

/// Reads until the other side closes or resets the connection.
pub(crate) fn read_all(mut stream: impl Connection) -> Vec<u8> {
    stream.set_patience(PATIENCE);
    let mut answer = vec![];
    let mut part = [0; 16 * 1024];
    loop {
        match stream.read(&mut part) {
            Ok(n) if n > 0 => answer.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer for long"),
            _ => return answer,
        }
    }
}

impl Response {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        Some(Self {
            status,
            headers,
            body: bytes[end + 4..].to_vec(),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!(
                "{e}: {} {:?}",
                self.status,
                String::from_utf8_lossy(&self.body)
            )
        })
    }

    /// The document of a call that must have succeeded.
    pub(crate) fn ok(&self) -> Value {
        assert!(
            (200..300).contains(&self.status),
            "{} {}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        self.json()
    }

    /// The error object of a call that must have failed with this status.
    pub(crate) fn error(&self, status: u16) -> Value {
        let body = self.json();
        assert_eq!(self.status, status, "{body}");
        assert_error_shape(&body);
        body["error"].clone()
    }

    pub(crate) fn kind(&self) -> String {
        text(&self.json()["error"]["kind"])
    }
}

/// One subscription to the events, read message by message.
pub(crate) struct Stream {
    reader: BufReader<Box<dyn Read>>,
    /// Bytes of messages that are not complete yet.
    pending: Vec<u8>,
}

impl Stream {
    pub(crate) fn open(socket: &std::path::Path, call: &Call) -> Self {
        let call = call.clone().header("host", "skein");
        Self::over(UnixStream::connect(socket).unwrap(), call)
    }

    pub(crate) fn open_tcp(address: &str, call: &Call) -> Self {
        let call = call.clone().header("host", address);
        Self::over(TcpStream::connect(address).unwrap(), call)
    }

    /// Subscribes and waits until the daemon has begun to answer.
    fn over(mut stream: impl Connection + 'static, call: Call) -> Self {
        stream.set_patience(PATIENCE);
        let call = call.header("accept", "text/event-stream");
        stream.write_all(&call.bytes()).unwrap();
        let mut reader = BufReader::new(Box::new(stream) as Box<dyn Read>);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        assert!(status.contains(" 200 "), "{status}");
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self {
            reader,
            pending: vec![],
        }
    }

    /// The next event, or none when the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let (id, kind, event) = self.message()?;
        assert_eq!(id, Some(event["seq"].to_string()));
        assert_eq!(Some(kind.as_str()), event["kind"].as_str());
        Some(event)
    }

    /// The next message as it came: id, kind and data.
    pub(crate) fn message(&mut self) -> Option<(Option<String>, String, Value)> {
        // Heartbeats reset the socket's own timeout, so this deadline is checked here.
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "no event for long");
            if let Some(end) = self.pending.windows(2).position(|w| w == b"\n\n") {
                let message: Vec<u8> = self.pending.drain(..end + 2).collect();
                let message = String::from_utf8(message).unwrap();
                let field = |name: &str| message.lines().find_map(|l| l.strip_prefix(name));
                // Heartbeats have no data.
                let Some(data) = field("data: ") else {
                    continue;
                };
                let data = serde_json::from_str(data).unwrap();
                let kind = field("event: ").unwrap_or_default().to_owned();
                return Some((field("id: ").map(str::to_owned), kind, data));
            }
            let chunk = self.chunk()?;
            self.pending.extend(chunk);
        }
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut size = String::new();
        // A daemon that is killed may cut the stream anywhere.
        self.reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim_end(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }
}

/// An error has the same four parts on every surface.
pub(crate) fn assert_error_shape(body: &Value) {
    let error = &body["error"];
    assert!(error["kind"].is_string(), "{body}");
    assert!(
        error["message"].as_str().is_some_and(|m| !m.is_empty()),
        "{body}"
    );
    assert!(error["hints"].is_array(), "{body}");
    assert!(error["details"].is_object(), "{body}");
}

pub(crate) fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("no text: {value}"))
        .to_owned()
}

/// Texts that deceive readers, break quoting or are very long.
pub(crate) fn hostile() -> Vec<String> {
    let mut all: Vec<String> = [
        "",
        " ",
        "\n",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "-x",
        "--upload-pack=touch /tmp/x",
        "--",
        "$(touch /tmp/x)",
        "`id`",
        "a;b",
        "a b",
        "a\u{7}b",
        "a\u{1b}[31mb",
        "a\r\nSet-Cookie: x",
        "\u{202e}gnp.exe",
        "zero\u{200b}width",
        "\u{feff}bom",
        "\u{430}pi",
        "ap\u{131}",
        "ａｐｉ",
        "💥",
        "'; DROP TABLE records; --",
        "%2e%2e%2f",
        "%s%n",
        "{}",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push("x".repeat(300));
    all.push("é".repeat(100_000));
    all
}
