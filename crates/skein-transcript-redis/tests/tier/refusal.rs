//! Servers that are not taken, and what is said about it.

use skein_domain::Kind;
use skein_transcript::conformance::block_on;
use skein_transcript_redis::{Durability, Options, RedisHot};

use crate::server::{Server, free_port};

fn refused(options: Options) -> String {
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
    let at = |user: &str| Options::new(format!("redis://{user}127.0.0.1:{}", server.port));
    let cluster = Options::new(format!(
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
    let text = refused(Options::new(format!(
        "redis://:hunter2@127.0.0.1:{}",
        free_port()
    )));
    assert!(
        text.starts_with("the hot tier is unavailable: Redis could not be connected to"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}
