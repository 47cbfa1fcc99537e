//! HTTP to a program that serves on loopback: a thread for its events and a thread for requests, whose results come
//! to the one loop as lines.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::protocol::Call;

/// The name that goes with the password.
const USER: &str = "opencode";
/// A request that takes longer has failed. Prompts are not waited for.
const LONGEST: Duration = Duration::from_secs(60);
/// Most bytes of an answer, which may be a whole conversation.
const ANSWER: u64 = 256 << 20;
/// The threads do little.
const STACK: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Web {
    password: String,
    said: Receiver<String>,
    mouth: Mouth,
    /// A byte here for every line.
    woken: UnixStream,
    calls: Option<Sender<Call>>,
}

/// The threads' end.
#[derive(Debug)]
struct Mouth {
    lines: Sender<String>,
    wake: UnixStream,
}

impl Mouth {
    fn say(&mut self, line: String) {
        let _ = self.lines.send(line);
        let _ = self.wake.write_all(b".");
    }

    fn again(&self) -> io::Result<Self> {
        Ok(Self {
            lines: self.lines.clone(),
            wake: self.wake.try_clone()?,
        })
    }
}

impl Web {
    pub(crate) fn new() -> io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let password = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (lines, said) = channel();
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        Ok(Self {
            password,
            said,
            mouth: Mouth { lines, wake },
            woken,
            calls: None,
        })
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// Readable when there are lines.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// The lines that came by now.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let mut bytes = [0; 4096];
        while matches!(self.woken.read(&mut bytes), Ok(n) if n > 0) {}
        self.said.try_iter().collect()
    }

    /// Listens to the events at the address, and takes requests from now on.
    pub(crate) fn connect(&mut self, address: &str) -> io::Result<()> {
        let port = address.strip_prefix("http://127.0.0.1:");
        let port: u16 = port
            .and_then(|port| port.trim_end_matches('/').parse().ok())
            .ok_or_else(|| io::Error::other("it is not on this machine alone"))?;
        let base = format!("http://{USER}:{}@127.0.0.1:{port}", self.password);
        let (calls, todo) = channel();
        self.calls = Some(calls);
        let (mouth, at) = (self.mouth.again()?, base.clone());
        start("events", move || listen(mouth, &at))?;
        let mouth = self.mouth.again()?;
        start("requests", move || serve(mouth, &todo, &base))
    }

    pub(crate) fn call(&self, call: Call) {
        if let Some(calls) = &self.calls {
            let _ = calls.send(call);
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.into()).stack_size(STACK);
    // It ends with the process: there is nothing of it that could be left half done.
    thread.spawn(work).map(drop)
}

/// No proxy stands between two programs of one machine, whatever the environment says.
fn agent(limit: Option<Duration>) -> Agent {
    Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .timeout_global(limit)
        .build()
        .into()
}

/// Gives every event as a line, and says when there are no more.
fn listen(mut mouth: Mouth, base: &str) {
    let why = match events(&mut mouth, base) {
        Ok(()) => "it was closed".to_owned(),
        Err(error) => error.to_string(),
    };
    mouth.say(json!({"closed": why}).to_string());
}

fn events(mouth: &mut Mouth, base: &str) -> Result<(), ureq::Error> {
    let response = agent(None).get(format!("{base}/event")).call()?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(ureq::Error::StatusCode(status));
    }
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        if let Some(data) = line?.strip_prefix("data:") {
            mouth.say(data.trim().to_owned());
        }
    }
    Ok(())
}

/// Makes the requests one after the other, so that they arrive in their order.
fn serve(mut mouth: Mouth, todo: &Receiver<Call>, base: &str) {
    let agent = agent(Some(LONGEST));
    for call in todo {
        let (status, body) = match request(&agent, base, &call) {
            Ok((status, text)) => (
                status,
                serde_json::from_str(&text).unwrap_or(Value::String(text)),
            ),
            Err(error) => (0, Value::String(error.to_string())),
        };
        mouth.say(json!({"call": call.tag, "status": status, "body": body}).to_string());
    }
}

fn request(agent: &Agent, base: &str, call: &Call) -> Result<(u16, String), ureq::Error> {
    let address = format!("{base}{}", call.path);
    let response = match &call.body {
        Some(body) => agent
            .post(address)
            .header("content-type", "application/json")
            .send(body.to_string())?,
        None => agent.get(address).call()?,
    };
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let text = body.with_config().limit(ANSWER).read_to_string()?;
    Ok((status, text))
}
