//! Transcripts in the ledger: fences, forks, archives, followers, tenants.

use std::sync::Arc;

use skein_domain::saga::ForkRequest;
use skein_domain::{Conflict, Kind, Role, Session, Timestamp};
use skein_domain::{Saga, SagaId, SagaRequest, SagaState, SagaStep};
use skein_ledger::transcript::{
    ColdTierState, Delta, FollowedChange, ForkOptions, SearchOptions, TranscriptEdit,
    TranscriptParts,
};
use skein_ledger::{Answer, Caller, Error, RequestOutcome};
use skein_store_sqlite::transcript::SqliteIndex;
use skein_transcript::cipher::{Cipher, PlainCipher};
use skein_transcript::cold::{Cold as _, Name, PutCondition, PutResult};
use skein_transcript::service::{Direction, HotCopy, MessageQuery, Tier};
use skein_transcript::{
    Block, HistoryPoint, Message, RunNumber, Tiers, TranscriptId, WriteContext,
};
use skein_transcript_conformance::memory::MemoryHot;
use tempfile::TempDir;

use crate::common::World;
use crate::stalled::StalledCold;

/// A world whose sessions have transcripts.
pub(crate) struct TranscriptWorld {
    pub(crate) world: World,
    pub(crate) tiers: Tiers,
    pub(crate) cold: Arc<StalledCold>,
    index: Arc<SqliteIndex>,
    _folder: TempDir,
}

impl TranscriptWorld {
    pub(crate) async fn new() -> Self {
        Self::with(Arc::new(PlainCipher)).await
    }

    pub(crate) async fn with(cipher: Arc<dyn Cipher>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let index = SqliteIndex::open(&folder.path().join("search.db")).unwrap();
        let cold = Arc::new(StalledCold::default());
        let tiers = Tiers::encrypted(Arc::new(MemoryHot::default()), cold.clone(), cipher);
        let mut talk = Self {
            world: World::new().await,
            tiers,
            cold,
            index: Arc::new(index),
            _folder: folder,
        };
        talk.equip();
        talk
    }

    fn equip(&mut self) {
        let parts = TranscriptParts {
            tiers: self.tiers.clone(),
            cold: ColdTierState::There,
            index: self.index.clone(),
            idle_seconds: Some(3600),
        };
        self.world = self.world.restarted_with(parts);
    }

    pub(crate) fn restart(&mut self) {
        self.equip();
    }

    async fn try_append(
        &self,
        session: &Session,
        run: Option<u64>,
        id: &str,
    ) -> Result<Answer, Error> {
        let requests = self.world.requests();
        requests
            .transcripts()
            .unwrap()
            .append(session.id.to_string(), run, vec![message(id)])
            .await
    }

    pub(crate) async fn append(&self, session: &Session, id: &str) {
        self.try_append(session, None, id).await.unwrap();
    }

    pub(crate) async fn fork(&self, source: &Session) -> Session {
        let order = ForkOptions {
            source: source.id.to_string(),
            ..ForkOptions::default()
        };
        self.world
            .requests()
            .sessions()
            .fork(order)
            .await
            .unwrap()
            .session()
            .unwrap()
    }

    pub(crate) async fn messages(&self, session: &Session) -> Vec<Message> {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor: None,
            limit: 1000,
        };
        let requests = self.world.requests();
        let (_, page) = requests
            .transcripts()
            .unwrap()
            .page(session.id.to_string(), query)
            .await
            .unwrap();
        page.messages.into_iter().map(|p| p.message).collect()
    }

    pub(crate) async fn ids(&self, session: &Session) -> Vec<String> {
        let messages = self.messages(session).await;
        messages.iter().map(|m| m.id.to_string()).collect()
    }

    pub(crate) async fn tier(&self, session: &Session) -> Option<Tier> {
        let overview = self
            .world
            .requests()
            .transcripts()
            .unwrap()
            .overview(session)
            .await;
        overview.unwrap().tier
    }

    /// Moves a transcript to the cold tier and damages it there.
    async fn damage(&self, session: &Session) {
        let requests = self.world.requests();
        let id = session.id.to_string();
        requests
            .transcripts()
            .unwrap()
            .tiers()
            .flush(id.clone(), HotCopy::ColdOnly)
            .await
            .unwrap();
        let names = self.cold.list(&Name::from_stored(""), None, 100).await;
        let manifest = |name: &&Name| name.as_str().ends_with(&format!("manifests/{id}"));
        let names = names.unwrap();
        let name = names.iter().find(manifest).unwrap();
        let tag = self.cold.get(name).await.unwrap().unwrap().tag;
        let put = self
            .cold
            .put(name, b"{}".to_vec(), PutCondition::Unchanged(tag));
        assert_eq!(put.await.unwrap(), PutResult::Done);
    }

    pub(crate) async fn find(&self, text: &str) -> Vec<String> {
        let order = SearchOptions {
            text: text.into(),
            limit: 10,
            ..SearchOptions::default()
        };
        let hits = self
            .world
            .requests()
            .transcripts()
            .unwrap()
            .search()
            .find(order)
            .await
            .unwrap();
        let mut found: Vec<String> = hits.hits.iter().map(|h| h.message.to_string()).collect();
        found.sort();
        found
    }
}

pub(crate) fn message(id: &str) -> Message {
    let blocks = vec![Block::Text(format!("text of {id}"))];
    let late = Timestamp::from_micros(i64::MAX);
    // Answers begin with an `a`.
    let role = match id.starts_with('a') {
        true => skein_transcript::MessageRole::Assistant,
        false => skein_transcript::MessageRole::User,
    };
    Message::new(id.parse().unwrap(), role, blocks, late)
}

#[tokio::test]
async fn l10_a_repeated_append_adds_nothing_and_appends_leave_no_event() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    let before = talk.world.events().len();
    talk.append(&session, "m1").await;
    let again = talk.try_append(&session, None, "m1").await.unwrap();
    let Answer::Fresh(RequestOutcome::Transcript {
        done: TranscriptEdit::Appended(done),
        ..
    }) = again
    else {
        panic!("{again:?}");
    };
    assert_eq!((done.added, done.already), (0, 1));
    assert_eq!(talk.ids(&session).await, ["m1"]);
    assert_eq!(
        talk.world.events().len(),
        before,
        "a transcript is its own log"
    );
    let keyed = talk.world.keyed("k", "append m2");
    let append = || {
        keyed
            .transcripts()
            .unwrap()
            .append(session.id.to_string(), None, vec![message("m2")])
    };
    assert!(matches!(append().await.unwrap(), Answer::Fresh(_)));
    assert!(matches!(append().await.unwrap(), Answer::Replayed(_)));
    assert_eq!(talk.world.events().len(), before);
}

#[tokio::test]
async fn writers_are_fenced_by_the_session_s_run() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.try_append(&session, Some(1), "m1").await.unwrap();
    talk.world.end(&session.id).await;
    talk.world
        .requests()
        .sessions()
        .restore(session.id.to_string())
        .await
        .unwrap();
    let stale = talk.try_append(&session, Some(1), "m2").await.unwrap_err();
    let Some(skein_domain::Error::Conflict(Conflict::Run {
        expected, actual, ..
    })) = stale.domain()
    else {
        panic!("{stale:?}");
    };
    assert_eq!((*expected, *actual), (1, 2));
    talk.try_append(&session, Some(2), "m2").await.unwrap();
    // A writer that read the old run before the restore is fenced as well.
    let late = talk.tiers.tenant(talk.world.tenant.clone());
    let late = late.open(&TranscriptId::from(&session.id));
    let by = WriteContext {
        run: RunNumber(1),
        at: Timestamp::from_micros(0),
    };
    let fenced = Error::from(late.append(by, &[message("m3")]).await.unwrap_err());
    assert_eq!(fenced.kind(), Kind::Conflict);
    assert!(matches!(
        fenced.domain(),
        Some(skein_domain::Error::Conflict(Conflict::Run { .. }))
    ));
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
}

#[tokio::test]
async fn l4_forks_that_a_crash_cut_short_are_undone() {
    let mut talk = TranscriptWorld::new().await;
    let source = talk.world.root().await;
    talk.append(&source, "m1").await;
    let all = talk.tiers.tenant(talk.world.tenant.clone());
    // The states that a daemon leaves when it dies after the first step, and after the second.
    for (id, forked) in [("api-7", false), ("api-8", true)] {
        let fork = ForkRequest {
            target: id.parse().unwrap(),
            after: None,
            thread: source.thread.clone(),
            owner: "user:ann".parse().unwrap(),
            task: source.task.clone(),
        };
        let step = match forked {
            true => SagaStep::Commit,
            false => SagaStep::Transcript,
        };
        let saga = Saga {
            id: SagaId::from_random([id.as_bytes()[4]; 10]),
            session: source.id.clone(),
            request: SagaRequest::Fork(fork.clone()),
            state: SagaState::Doing { step },
            prompt: None,
            shared: None,
            actor: "user:ann".parse().unwrap(),
            reply: None,
            version: 1,
            at: Timestamp::from_micros(1),
        };
        let target = TranscriptId::from(&fork.target);
        let (store, place) = (talk.world.store.clone(), source.clone());
        let tenant = store.tenant(talk.world.tenant.clone());
        let actor = "user:ann".parse().unwrap();
        tenant
            .write_blocking(&actor, Timestamp::from_micros(1), move |writer| {
                writer.insert(&saga)?;
                let began = skein_domain::fact::SessionChange::ForkBegan {
                    fork: fork.target.clone(),
                };
                writer.append_event(&began.of(&place))
            })
            .unwrap();
        if forked {
            let by = WriteContext {
                run: RunNumber(1),
                at: Timestamp::from_micros(1),
            };
            all.fork(
                &TranscriptId::from(&source.id),
                &HistoryPoint::Head,
                &target,
                by,
            )
            .await
            .unwrap();
        }
    }
    talk.restart();
    assert_eq!(talk.world.ledger.recover().await.unwrap(), 2);
    assert_eq!(talk.world.ledger.recover().await.unwrap(), 0);
    assert_eq!(talk.world.all::<Saga>(), vec![]);
    assert_eq!(talk.world.count("fork.undone"), 2);
    assert_eq!(all.find(&"api-8".parse().unwrap()).await.unwrap(), None);
    assert_eq!(talk.world.all::<Session>().len(), 1);
    assert_eq!(talk.ids(&source).await, ["m1"]);
    talk.world.audit();
}

#[tokio::test]
async fn l11_a_fork_and_its_source_do_not_see_each_others_messages() {
    let talk = TranscriptWorld::new().await;
    let source = talk.world.root().await;
    talk.append(&source, "m1").await;
    let fork = talk.fork(&source).await;
    let from = fork.forked_from.clone().unwrap();
    assert_eq!(from.session, source.id);
    assert_eq!(from.message.unwrap().as_str(), "m1");
    assert_eq!(
        (fork.parent.clone(), fork.thread.clone()),
        (None, source.thread.clone())
    );
    talk.append(&source, "s2").await;
    talk.append(&fork, "f2").await;
    assert_eq!(talk.ids(&source).await, ["m1", "s2"]);
    assert_eq!(talk.ids(&fork).await, ["m1", "f2"]);
    assert_eq!(
        talk.find("text").await,
        ["f2", "m1", "s2"],
        "what is shared is found once"
    );
}

#[tokio::test]
async fn a_fork_that_cannot_be_made_leaves_nothing() {
    let talk = TranscriptWorld::new().await;
    let source = talk.world.root().await;
    talk.append(&source, "m1").await;
    let order = ForkOptions {
        source: source.id.to_string(),
        at: Some("nope".parse().unwrap()),
        ..ForkOptions::default()
    };
    let error = talk
        .world
        .requests()
        .sessions()
        .fork(order)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert_eq!(talk.world.all::<Saga>(), vec![]);
    assert_eq!(talk.world.all::<Session>().len(), 1);
    talk.world.audit();
}

#[tokio::test]
async fn archived_threads_are_cold_and_read_only_until_they_are_reopened() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m1").await;
    let requests = talk.world.requests();
    requests
        .threads()
        .archive(session.thread.to_string())
        .await
        .unwrap();
    assert_eq!(talk.tier(&session).await, Some(Tier::Cold));
    let error = talk.try_append(&session, None, "m2").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert_eq!(talk.world.refusals("thread_archived"), 1);
    assert_eq!(talk.ids(&session).await, ["m1"]);
    assert_eq!(talk.find("text").await, ["m1"]);
    requests
        .threads()
        .reopen(session.thread.to_string())
        .await
        .unwrap();
    talk.append(&session, "m2").await;
    assert_eq!(talk.tier(&session).await, Some(Tier::Hot));
    assert_eq!(talk.ids(&session).await, ["m1", "m2"]);
}

#[tokio::test]
async fn idle_transcripts_are_flushed_by_the_sweep() {
    let talk = TranscriptWorld::new().await;
    let (idle, busy) = (talk.world.root().await, talk.world.root().await);
    talk.append(&idle, "m1").await;
    talk.world.clock.forward(4000);
    talk.append(&busy, "m1").await;
    talk.world.ledger.flush_idle().await.unwrap();
    assert_eq!(talk.tier(&idle).await, Some(Tier::Cold));
    assert_eq!(talk.tier(&busy).await, Some(Tier::Hot));
    assert_eq!(talk.world.count("transcript.flushed"), 1);
    assert_eq!(talk.find("text").await.len(), 2);
}

#[tokio::test]
async fn a_transcript_that_cannot_be_read_delays_neither_searches_nor_the_sweep() {
    let talk = TranscriptWorld::new().await;
    let (bad, good) = (talk.world.root().await, talk.world.root().await);
    talk.append(&bad, "m1").await;
    talk.damage(&bad).await;
    talk.append(&good, "m2").await;
    assert_eq!(talk.find("m2").await, ["m2"]);
    talk.world.clock.forward(4000);
    talk.world.ledger.flush_idle().await.unwrap();
    assert_eq!(talk.tier(&good).await, Some(Tier::Cold));
}

#[tokio::test]
async fn a_search_during_another_ones_indexing_finds_the_message_too() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m0").await;
    talk.find("m0").await;
    for n in 1..20 {
        let id = format!("m{n}");
        talk.append(&session, &id).await;
        let found = tokio::join!(talk.find(&id), talk.find(&id), talk.find(&id));
        let one = vec![id];
        assert_eq!(found, (one.clone(), one.clone(), one));
    }
}

#[tokio::test]
async fn a_view_stays_what_it_was_or_fails() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    for n in 0..6 {
        talk.append(&session, &format!("m{n}")).await;
    }
    let (requests, id) = (talk.world.requests(), session.id.to_string());
    let view = requests
        .transcripts()
        .unwrap()
        .view(id.clone())
        .await
        .unwrap();
    let (mut read, mut cursor) = (vec![], None);
    loop {
        let query = MessageQuery {
            direction: Direction::OldestFirst,
            cursor,
            limit: 2,
        };
        let page = view.page(query).await.unwrap();
        read.extend(page.messages.iter().map(|p| p.message.id.to_string()));
        if cursor.is_none() {
            let to = "m1".parse().unwrap();
            requests
                .transcripts()
                .unwrap()
                .rewind(id.clone(), None, to)
                .await
                .unwrap();
            talk.append(&session, "other").await;
            requests
                .transcripts()
                .unwrap()
                .tiers()
                .flush(id.clone(), HotCopy::ColdOnly)
                .await
                .unwrap();
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(read, ["m0", "m1", "m2", "m3", "m4", "m5"]);
    assert_eq!(talk.ids(&session).await, ["m0", "m1", "other"]);
    let all = talk.tiers.tenant(requests.tenant().clone());
    let transcript = all.open(&TranscriptId::from(&session.id));
    transcript.purge().await.unwrap();
    let query = MessageQuery {
        direction: Direction::OldestFirst,
        cursor: Some(3),
        limit: 2,
    };
    let gone = view.page(query).await.unwrap_err();
    assert_eq!(gone.kind(), Kind::Unavailable, "{gone}");
}

#[tokio::test]
async fn a_flush_records_what_moved_and_nothing_else() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m1").await;
    let requests = talk.world.requests();
    for _ in 0..2 {
        requests
            .transcripts()
            .unwrap()
            .tiers()
            .flush(session.id.to_string(), HotCopy::Hot)
            .await
            .unwrap();
    }
    assert_eq!(talk.world.count("transcript.flushed"), 1);
    for _ in 0..2 {
        requests
            .transcripts()
            .unwrap()
            .tiers()
            .flush(session.id.to_string(), HotCopy::ColdOnly)
            .await
            .unwrap();
    }
    assert_eq!(talk.world.count("transcript.flushed"), 2);
    for _ in 0..2 {
        requests
            .transcripts()
            .unwrap()
            .tiers()
            .hydrate(session.id.to_string())
            .await
            .unwrap();
    }
    assert_eq!(talk.world.count("transcript.hydrated"), 1);
}

#[tokio::test]
async fn followers_read_every_message_once_and_pieces_as_they_come() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    let requests = talk.world.requests();
    let id = session.id.to_string();
    let mut follower = requests
        .transcripts()
        .unwrap()
        .follow(id.clone(), None)
        .await
        .unwrap();
    talk.append(&session, "m1").await;
    let ids_of = |change: Option<FollowedChange>| match change {
        Some(FollowedChange::Messages(all)) => {
            all.iter().map(|p| p.message.id.to_string()).collect()
        }
        other => vec![format!("{other:?}")],
    };
    assert_eq!(ids_of(follower.next().await.unwrap()), ["m1"]);
    let delta = Delta {
        message: "m2".parse().unwrap(),
        kind: "text",
        block: 0,
        text: "a piece".into(),
    };
    requests
        .transcripts()
        .unwrap()
        .pass_delta(id.clone(), None, delta.clone())
        .await
        .unwrap();
    assert_eq!(
        follower.next().await.unwrap(),
        Some(FollowedChange::Delta(delta.into()))
    );
    // A follower that is far behind misses pieces, but no message.
    for n in 2..600 {
        talk.append(&session, &format!("m{n}")).await;
    }
    let mut all: Vec<String> = vec![];
    while all.len() < 598 {
        all.extend(ids_of(follower.next().await.unwrap()));
    }
    let expected: Vec<String> = (2..600).map(|n| format!("m{n}")).collect();
    assert_eq!(all, expected);
    requests
        .transcripts()
        .unwrap()
        .rewind(id.clone(), None, "m2".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(
        follower.next().await.unwrap(),
        Some(FollowedChange::Rewound { to: Some(1) })
    );
    talk.append(&session, "again").await;
    assert_eq!(ids_of(follower.next().await.unwrap()), ["again"]);
    let mut resumed = requests
        .transcripts()
        .unwrap()
        .follow(id, Some(1))
        .await
        .unwrap();
    assert_eq!(ids_of(resumed.next().await.unwrap()), ["again"]);
}

#[tokio::test]
async fn a_clock_that_goes_back_does_not_reverse_the_times() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m1").await;
    talk.world.clock.forward(-7200);
    talk.append(&session, "m2").await;
    talk.world.clock.forward(14_400);
    talk.append(&session, "m3").await;
    let times: Vec<Timestamp> = talk.messages(&session).await.iter().map(|m| m.at).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    assert!(times[2] > times[0]);
}

#[tokio::test]
async fn l7_transcripts_of_one_name_are_two_in_two_tenants() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    talk.append(&session, "m1").await;
    let other = talk.world.tenant("other");
    other.add_project("api").await;
    let twin = other.root().await;
    assert_eq!(twin.id, session.id);
    let query = MessageQuery {
        direction: Direction::OldestFirst,
        cursor: None,
        limit: 10,
    };
    let (_, page) = other
        .requests()
        .transcripts()
        .unwrap()
        .page(twin.id.to_string(), query)
        .await
        .unwrap();
    assert_eq!(page.messages, vec![]);
    let order = SearchOptions {
        text: "text".into(),
        limit: 10,
        ..SearchOptions::default()
    };
    let hits = other
        .requests()
        .transcripts()
        .unwrap()
        .search()
        .find(order)
        .await
        .unwrap();
    assert_eq!(hits.hits, vec![]);
}

#[tokio::test]
async fn roles_and_bound_tokens_hold_for_transcripts_too() {
    let talk = TranscriptWorld::new().await;
    let session = talk.world.root().await;
    let id = session.id.to_string();
    let as_role = |role, bound| {
        talk.world.ledger.requests(Caller {
            role,
            bound,
            ..talk.world.caller("user:eve")
        })
    };
    let reader = as_role(Role::Read, false);
    let refused = reader
        .transcripts()
        .unwrap()
        .append(id.clone(), None, vec![message("m1")])
        .await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Refused);
    assert_eq!(
        reader
            .transcripts()
            .unwrap()
            .tiers()
            .flush(id.clone(), HotCopy::Hot)
            .await
            .unwrap_err()
            .kind(),
        Kind::Refused
    );
    assert!(
        reader
            .transcripts()
            .unwrap()
            .state(id.clone())
            .await
            .is_ok()
    );
    let bound = as_role(Role::Operate, true);
    let refused = bound
        .transcripts()
        .unwrap()
        .append(id.clone(), None, vec![message("m1")])
        .await;
    assert_eq!(refused.unwrap_err().kind(), Kind::Refused);
    let order = ForkOptions {
        source: id,
        ..ForkOptions::default()
    };
    assert_eq!(
        bound.sessions().fork(order).await.unwrap_err().kind(),
        Kind::Refused
    );
    assert_eq!(talk.ids(&session).await, Vec::<String>::new());
}
