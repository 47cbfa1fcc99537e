//! A server that is killed, and one that cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use skein_domain::Kind;
use skein_transcript::{Error, Hot, Transcripts};
use skein_transcript_conformance::block_on;
use skein_transcript_redis::RedisHot;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::server::Server;
use crate::talk::{by, hot_only, id, say, tenant, words};

const WRITERS: usize = 16;
const EACH: usize = 150;

/// Says everything in order; what fails is said again until it is acknowledged.
async fn write(all: Transcripts, writer: usize, said: Arc<AtomicUsize>) {
    let name = id(&format!("w{writer}"));
    while all.create(&name, by()).await.is_err() {}
    let transcript = all.open(&name);
    for n in 0..EACH {
        while let Err(error) = say(&transcript, &format!("m{n}")).await {
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        said.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn l10_acknowledged_messages_survive_kill_9_once_and_in_order() {
    let server = Server::safe();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let tier = runtime
        .block_on(RedisHot::connect(server.options()))
        .unwrap();
    let all = hot_only(Arc::new(tier));
    let said = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn_on(write(all.clone(), writer, said.clone()), runtime.handle());
    }
    for part in 1..4 {
        while said.load(Ordering::SeqCst) < WRITERS * EACH * part / 4 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        server.start();
    }
    while let Some(ended) = runtime.block_on(writers.join_next()) {
        ended.unwrap();
    }
    server.kill();
    server.start();
    let expected: Vec<String> = (0..EACH).map(|n| format!("m{n}")).collect();
    for writer in 0..WRITERS {
        let transcript = all.open(&id(&format!("w{writer}")));
        // The first call notices that the connection is gone.
        let _ = runtime.block_on(transcript.head());
        assert_eq!(
            runtime.block_on(words(&transcript)).unwrap(),
            expected.join(" ")
        );
    }
}

#[test]
fn a_lost_connection_is_unavailable_and_comes_back() {
    let server = Server::safe();
    let tier = server.tier();
    let all = hot_only(tier.clone());
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        say(&all.open(&id("a")), "x y").await.unwrap();
        server.kill();
        for _ in 0..3 {
            let error = tier.head(&tenant(), &id("a")).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Unavailable);
            assert!(
                error.to_string().contains("Redis could not look"),
                "{error}"
            );
        }
        server.start();
        // The one that notices; scripts are sent anew, since the server forgot them.
        let _ = tier.head(&tenant(), &id("a")).await;
        say(&all.open(&id("a")), "z").await.unwrap();
        assert_eq!(words(&all.open(&id("a"))).await.unwrap(), "x y z");
    });
}

#[test]
fn a_server_that_hangs_is_unavailable_in_time() {
    let server = Server::safe();
    let tier = crate::server::connect(server.options().timeout(Duration::from_millis(200)));
    // Others are let in and wait, so that only time can tell.
    let _: String = server.ask("CLIENT PAUSE 2000 ALL");
    let error = block_on(tier.head(&tenant(), &id("a"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the hot tier is unavailable: Redis did not look within 200 ms"
    );
}
