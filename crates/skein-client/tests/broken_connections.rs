//! What the client does when the connection breaks: the same key once more, the stream from its cursor.
#![expect(clippy::unwrap_used, reason = "a test may fail anywhere")]

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use skein_client::{Client, Endpoint, Error, ErrorKind, IdempotencyKey, Identity, StreamState};
use skein_wire::{AddProject, Event};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

fn client(socket: &Path) -> Client {
    Client::new(
        Endpoint::unix(socket),
        Identity {
            tenant: "default".into(),
            actor: "user:ann".into(),
        },
    )
    .with_deadlines(Duration::from_secs(5), Duration::from_secs(5))
}

/// Reads one request with its body, as text.
async fn request(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).await.unwrap();
        bytes.extend_from_slice(&chunk[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let complete = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |n| n.parse().unwrap());
            body.len() >= length
        });
        if complete || n == 0 {
            return text;
        }
    }
}

async fn answer(stream: &mut UnixStream, status: &str, body: &str) {
    let text = format!(
        "HTTP/1.1 {status}\r\nskein-version: 9.9.9\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
}

fn key_of(request: &str) -> &str {
    request
        .lines()
        .find_map(|line| line.strip_prefix("idempotency-key: "))
        .unwrap()
}

const PROJECT: &str = r#"{"id":"p","tenant":"default","name":"n","path":null,"prefix":"n","limits":{"depth":4,"width":8},"retention":{"idle_ttl_seconds":null,"max_ended":null},"version":1,"created_at":"","updated_at":""}"#;

#[tokio::test(flavor = "current_thread")]
async fn a_broken_call_is_repeated_once_with_the_same_key() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        let (mut first, _) = listener.accept().await.unwrap();
        let one = request(&mut first).await;
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        let two = request(&mut second).await;
        answer(&mut second, "201 Created", PROJECT).await;
        // The same connection serves the next call.
        let three = request(&mut second).await;
        answer(&mut second, "200 OK", PROJECT).await;
        (one, two, three)
    };
    let client = client(&socket);
    let call = async {
        let body = AddProject::default();
        let made = client
            .add_project(&body, &IdempotencyKey::random())
            .await
            .unwrap();
        client.get_project("a/b").await.unwrap();
        made
    };
    let ((one, two, three), made) = tokio::join!(server, call);
    assert_eq!(made.id, "p");
    assert_eq!(key_of(&one), key_of(&two));
    assert_eq!(one, two);
    assert!(
        three.starts_with("GET /api/v1/projects/a%2Fb HTTP/1.1\r\n"),
        "{three}"
    );
    assert_eq!(client.daemon_version(), Some("9.9.9"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_that_breaks_twice_is_unavailable() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await;
        }
    };
    let client = client(&socket);
    let ((), result) = tokio::join!(server, client.healthz());
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "current_thread")]
async fn answers_that_are_not_ours_are_told_by_their_status() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for (status, body) in [
            ("404 Not Found", "<html>"),
            (
                "409 Conflict",
                r#"{"error":{"kind":"conflict","message":"too late","hints":["look"],"details":{}}}"#,
            ),
            ("200 OK", "no json"),
        ] {
            request(&mut stream).await;
            answer(&mut stream, status, body).await;
        }
    };
    let client = client(&socket);
    let calls = async {
        let foreign = client.healthz().await.unwrap_err();
        let conflict = client.healthz().await.unwrap_err();
        let nonsense = client.healthz().await.unwrap_err();
        (foreign, conflict, nonsense)
    };
    let ((), (foreign, conflict, nonsense)) = tokio::join!(server, calls);
    assert_eq!(foreign.kind(), ErrorKind::NotFound);
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    assert_eq!(conflict.to_string(), "too late");
    assert_eq!(conflict.hints(), ["look"]);
    assert!(matches!(nonsense, Error::Unreadable { .. }), "{nonsense:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn an_absent_daemon_is_unreachable_and_odd_headers_never_travel() {
    let temp = tempfile::tempdir().unwrap();
    let client = client(&temp.path().join("none"));
    let absent = client.connect().await.unwrap_err();
    assert!(matches!(absent, Error::Unreachable { .. }));
    let key = IdempotencyKey::new("a\r\nx: y");
    let odd = client.run_retention(&key).await.unwrap_err();
    assert_eq!(odd.kind(), ErrorKind::Misuse);
}

fn event(seq: u64) -> String {
    let event = Event {
        seq,
        at: "2026-01-01T00:00:00Z".into(),
        tenant: "default".into(),
        kind: "x".into(),
        project: None,
        thread: None,
        session: None,
        actor: "system".into(),
        data: serde_json::Value::Null,
        prev_hash: String::new(),
        hash: String::new(),
    };
    let data = serde_json::to_string(&event).unwrap();
    let text = format!(": beat\n\nid: {seq}\nevent: x\ndata: {data}\n\n");
    format!("{:x}\r\n{text}\r\n", text.len())
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

#[tokio::test(flavor = "current_thread")]
async fn a_stream_goes_on_after_a_break_without_gap_or_repeat() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        let (mut first, _) = listener.accept().await.unwrap();
        let one = request(&mut first).await;
        let text = format!("{STREAM}{}{}", event(1), event(2));
        first.write_all(text.as_bytes()).await.unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        let two = request(&mut second).await;
        // A daemon that repeats an event is forgiven.
        let text = format!("{STREAM}{}{}", event(2), event(3));
        second.write_all(text.as_bytes()).await.unwrap();
        (one, two, second)
    };
    let client = client(&socket);
    let links = RefCell::new(vec![]);
    let read = async {
        let mut stream = client
            .follow_events(Some(0), Some("api-1"))
            .on_change(|link| links.borrow_mut().push(link));
        let mut seen = vec![];
        for _ in 0..3 {
            seen.push(stream.next().await.unwrap().seq);
        }
        seen
    };
    let ((one, two, _open), seen) = tokio::join!(server, read);
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(
        links.into_inner(),
        [StreamState::Lost, StreamState::Restored]
    );
    assert!(one.contains("last-event-id: 0\r\n"), "{one}");
    assert!(two.contains("last-event-id: 2\r\n"), "{two}");
    assert!(
        two.starts_with("GET /api/v1/events?since=2&session=api-1 "),
        "{two}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn an_error_within_a_stream_is_told_as_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        request(&mut stream).await;
        let text = "event: error\ndata: {\"error\":{\"kind\":\"failed\",\"message\":\"the disk broke\",\"hints\":[],\"details\":{}}}\n\n";
        let text = format!("{STREAM}{:x}\r\n{text}\r\n", text.len());
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    };
    let client = client(&socket);
    let mut stream = client.follow_events(None, None);
    let (_open, result) = tokio::join!(server, stream.next());
    assert_eq!(result.unwrap_err().to_string(), "the disk broke");
}

#[tokio::test(flavor = "current_thread")]
async fn a_daemon_that_says_nothing_is_not_waited_for_forever() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    // The kernel takes the connection; nobody ever looks at it.
    let _listener = UnixListener::bind(&socket).unwrap();
    let soon = Duration::from_millis(50);
    let client = client(&socket).with_deadlines(soon, soon);
    let error = client.daemon_status().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[tokio::test(flavor = "current_thread")]
async fn a_stream_that_always_breaks_ends() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            request(&mut stream).await;
            stream.write_all(STREAM.as_bytes()).await.unwrap();
        }
    };
    let client = client(&socket);
    let mut stream = client
        .follow_events(None, None)
        .patience(Duration::from_millis(60));
    tokio::select! {
        () = server => {}
        result = stream.next() => assert_eq!(result.unwrap_err().kind(), ErrorKind::Unavailable),
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_stream_that_cannot_come_back_ends() {
    let temp = tempfile::tempdir().unwrap();
    let client = client(&temp.path().join("none"));
    let mut stream = client
        .follow_events(None, None)
        .patience(Duration::from_millis(60));
    let error = stream.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
