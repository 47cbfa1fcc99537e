//! Servers that are not taken, and what is said about it.

use skein_domain::Kind;
use skein_transcript_conformance::block_on;
use skein_transcript_redis::{Durability, RedisHot, RedisOptions};

use crate::server::{Server, connect, free_port};
use crate::talk::{by, hot_only, id, say, words};

fn refused(options: RedisOptions) -> String {
    let error = block_on(RedisHot::connect(options)).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    error.to_string()
}

#[test]
fn l10_a_server_that_may_forget_is_refused_unless_allowed() {
    for (arguments, why) in [
        (&["--appendonly", "no"][..], "`appendonly yes` is not set"),
        (
            &["--appendonly", "yes", "--appendfsync", "everysec"],
            "`appendfsync always` is not set",
        ),
        (
            &[
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--maxmemory",
                "1gb",
                "--maxmemory-policy",
                "allkeys-lru",
            ],
            "`maxmemory-policy noeviction` is not set",
        ),
    ] {
        let server = Server::with(arguments);
        let text = refused(server.options());
        assert!(
            text.contains("would lose acknowledged messages") && text.contains(why),
            "{text}"
        );
        let options = server.options().durability(Durability::AllowVolatile);
        block_on(RedisHot::connect(options)).unwrap();
    }
}

#[test]
fn l14_a_wrong_password_is_not_repeated() {
    let server = Server::with(&[
        "--requirepass",
        "the-right-one",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ]);
    let at = |user: &str| RedisOptions::new(format!("redis://{user}127.0.0.1:{}", server.port));
    let cluster = RedisOptions::new(format!(
        "redis-cluster://:hunter2@127.0.0.1:{}",
        server.port
    ));
    for options in [at(":hunter2@"), at("me:hunter2@"), cluster] {
        let text = refused(options);
        assert!(
            !text.contains("hunter2") && !text.contains("right"),
            "{text}"
        );
    }
    assert!(refused(at(":hunter2@")).contains("the user or password is wrong"));
    assert!(!refused(at("")).is_empty());
    let tier = block_on(RedisHot::connect(at(":the-right-one@"))).unwrap();
    assert!(!format!("{tier:?}").contains("right"));
}

#[test]
fn l13_a_server_that_is_not_there_is_named_as_unavailable() {
    let text = refused(RedisOptions::new(format!(
        "redis://:hunter2@127.0.0.1:{}",
        free_port()
    )));
    assert!(
        text.starts_with("the hot tier is unavailable: Redis could not be connected to"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

/// Which of the two is shown depends on the server that is installed.
#[test]
fn l10_waitaof_is_used_where_there_is_one_and_refused_elsewhere() {
    let server = Server::with(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let options = server.options().durability(Durability::WaitAof);
    let info: String = server.ask("INFO server");
    let has_it = !info.contains("redis_version:7.0.") && !info.contains("redis_version:7.1.");
    if !has_it {
        let text = refused(options);
        assert!(
            text.contains("does not support WAITAOF, which requires Redis 7.2"),
            "{text}"
        );
        return;
    }
    let all = hot_only(connect(options));
    block_on(async {
        all.create(&id("a"), by()).await.unwrap();
        for word in ["x", "y"] {
            say(&all.open(&id("a")), word).await.unwrap();
            // The page cache would survive the kill; that the server was asked to wait is what counts.
            let counted: String = server.ask("INFO commandstats");
            assert!(counted.contains("cmdstat_waitaof"), "{counted}");
        }
    });
    server.kill();
    server.start();
    let all = hot_only(connect(server.options().durability(Durability::WaitAof)));
    assert_eq!(block_on(words(&all.open(&id("a")))).unwrap(), "x y");
}
