//! As much of an HTTP client as the suite needs.

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use skein_model_server::Server;
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: String,
    /// Whether the connection held until the end.
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The data of server-sent events.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert!(
            self.header("content-type")
                .unwrap()
                .starts_with("text/event-stream")
        );
        let lines = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        lines
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

pub(crate) async fn ask(server: &Server, path: &str, body: &Value) -> Answer {
    send(server, "POST", path, &[], body).await
}

pub(crate) async fn get(server: &Server, path: &str) -> Answer {
    send(server, "GET", path, &[], &Value::Null).await
}

pub(crate) async fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", server.address().to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let exchange = async {
        let (head, mut body) = sender.send_request(request).await.unwrap().into_parts();
        let (mut bytes, mut whole) = (vec![], true);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(_) => whole = false,
            }
        }
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(bytes).unwrap(),
            whole,
        }
    };
    // The connection is driven until the answer is there; a broken one ends first, and the answer tells.
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    }
}
