//! What must hold after a restart. The clients' own notes are compared with what the daemon says now, and
//! with the event log, where every request is known by the actor that sent it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use serde_json::Value;

use crate::crash::load::Record;
use crate::crash::operation::{Often, Operation, text};
use crate::storm::http::{Answer, Connection};

/// What the event log said so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    last: u64,
    last_hash: String,
    /// By actor: the changes it made, without locks, reverts and audits.
    effects: HashMap<String, Vec<(u64, String)>>,
    /// By handoff: how it was decided.
    handoffs: BTreeMap<String, Fate>,
    /// By session: handoffs and broadcasts committed.
    owner_steps: HashMap<String, u64>,
    checked: u64,
    acknowledged: u64,
    refused: u64,
    lost: u64,
    lost_but_done: u64,
    kinds: BTreeMap<String, u64>,
}

#[derive(Debug)]
enum Fate {
    Locked,
    Committed,
    Broadcast {
        source: String,
        children: BTreeSet<String>,
    },
    Reverted,
}

impl Ledger {
    /// Reads on where it stopped: no gap, and each event continues the one before.
    pub(crate) fn read_events(&mut self, connection: &mut Connection) {
        loop {
            let page = connection.get(&format!("/api/v1/events?limit=1000&since={}", self.last));
            let events = page["data"].as_array().expect("a list has data");
            for event in events {
                assert_eq!(event["seq"], self.last + 1, "L9: a gap in the log");
                if self.last > 0 {
                    assert_eq!(event["prev_hash"], self.last_hash.as_str(), "L9: {event}");
                }
                self.last += 1;
                self.last_hash = text(event, "hash").to_owned();
                self.note(event);
            }
            if page["next"].is_null() {
                return;
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let kind = text(event, "kind");
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        self.note_handoff(kind, event);
        if !matches!(kind, "handoff.locked" | "handoff.reverted" | "saga.failed")
            && !kind.starts_with("audit.")
        {
            let actor = text(event, "actor").to_owned();
            let effects = self.effects.entry(actor).or_default();
            effects.push((self.last, kind.to_owned()));
        }
    }

    fn note_handoff(&mut self, kind: &str, event: &Value) {
        let fate = match kind {
            "handoff.locked" => Fate::Locked,
            "handoff.committed" => Fate::Committed,
            "handoff.reverted" => Fate::Reverted,
            "broadcast.committed" => {
                let children = event["data"]["children"].as_array();
                let ids = children.into_iter().flatten();
                Fate::Broadcast {
                    source: text(event, "session").to_owned(),
                    children: ids.map(|c| text(c, "session").to_owned()).collect(),
                }
            }
            _ => return,
        };
        if matches!(fate, Fate::Committed | Fate::Broadcast { .. }) {
            let steps = self.owner_steps.entry(text(event, "session").to_owned());
            *steps.or_default() += 1;
        }
        let begins = matches!(fate, Fate::Locked);
        let id = text(&event["data"], "handoff").to_owned();
        let before = self.handoffs.insert(id, fate);
        match before {
            None => assert!(begins, "L4: decided without a lock: {event}"),
            Some(Fate::Locked) => assert!(!begins, "L4: locked twice: {event}"),
            Some(_) => panic!("L4: decided twice: {event}"),
        }
    }

    /// Recovery is over before the first answer: nothing is locked, nothing is undecided.
    pub(crate) fn check_settled(&self, connection: &mut Connection) {
        // The newest are those that the clients work on.
        let newest = connection.get("/api/v1/sessions?limit=100");
        for session in newest["data"].as_array().into_iter().flatten() {
            let phase = text(session, "phase");
            assert!(
                !matches!(phase, "locked" | "spawning"),
                "L4: left half-done: {session}"
            );
        }
        for (id, fate) in &self.handoffs {
            assert!(
                !matches!(fate, Fate::Locked),
                "L4: handoff {id} is undecided"
            );
        }
    }

    /// Sends every request of the round again. Those that were acknowledged are answered as before, without
    /// being done again; the others are done now, unless they had been, and once only.
    pub(crate) fn repeat_all(
        &mut self,
        connection: &mut Connection,
        records: Vec<Record>,
    ) -> Vec<(Operation, Answer)> {
        let mut settled = vec![];
        for Record { operation, answer } in records {
            let again = |connection: &mut Connection| {
                let answer = connection
                    .send(&operation.request)
                    .expect("nobody kills the daemon now");
                assert!(answer.status < 500, "{operation:?}: {answer:?}");
                answer
            };
            let answer = match answer {
                Some(answer) if answer.is_success() => {
                    self.acknowledged += 1;
                    same_answer(&operation, &answer, &again(connection));
                    check_kept(connection, &answer.body);
                    answer
                }
                // A refusal promises nothing and is not kept; it must only have changed nothing.
                Some(answer) => {
                    self.refused += 1;
                    answer
                }
                None => {
                    self.lost += 1;
                    let first = again(connection);
                    self.lost_but_done += u64::from(first.replayed);
                    if first.is_success() {
                        same_answer(&operation, &first, &again(connection));
                    }
                    first
                }
            };
            settled.push((operation, answer));
        }
        settled
    }

    /// Each request left exactly the events its answer promises, all of one transaction.
    pub(crate) fn check_effects(&self, settled: &[(Operation, Answer)]) {
        for (operation, answer) in settled {
            let actor = format!("agent:{}", operation.request.name);
            let effects = self.effects.get(&actor).map_or(&[][..], Vec::as_slice);
            let told = effects
                .iter()
                .filter(|(_, kind)| kind == operation.tells)
                .count();
            let right = match operation.often {
                _ if !answer.is_success() => effects.is_empty(),
                Often::Once => told == 1,
                Often::AtMostOnce => told <= 1,
                Often::PerSession => told >= 1,
            };
            assert!(right, "{operation:?}\n{answer:?}\nleft {effects:?}");
            let together = effects.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
            assert!(together, "{operation:?} was done in two parts: {effects:?}");
        }
    }

    /// Every session there is, with its parents, children and accounts.
    pub(crate) fn check_everything(&mut self, connection: &mut Connection) {
        let verdict = connection.get("/api/v1/events/verify");
        assert_eq!(verdict["ok"], true, "L9: {verdict}");
        assert_eq!(verdict["events"], self.last, "L9: {verdict}");
        let threads = connection.list("/api/v1/threads?state=all");
        let archived: BTreeSet<&str> = threads
            .iter()
            .filter(|thread| thread["state"] == "archived")
            .map(|thread| text(thread, "id"))
            .collect();
        let sessions = connection.list("/api/v1/sessions?all=true");
        let family = Family::new(&sessions);
        let limits = limits(connection);
        for session in &sessions {
            family.check(session, &limits);
            let phase = text(session, "phase");
            assert!(
                matches!(phase, "idle" | "ended") || !archived.contains(text(session, "thread")),
                "at work on an archived thread: {session}"
            );
            let steps = self.owner_steps.get(text(session, "id")).copied();
            assert_eq!(
                session["owner_version"],
                1 + steps.unwrap_or(0),
                "L1: {session}"
            );
        }
        self.check_broadcasts(&family);
        self.checked = sessions.len() as u64;
    }

    /// All recipients or none.
    fn check_broadcasts(&self, family: &Family<'_>) {
        let mut expected: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for (id, fate) in &self.handoffs {
            if let Fate::Broadcast { source, children } = fate {
                let ids = children.iter().map(String::as_str).collect();
                expected.insert((source, id), ids);
            }
        }
        let mut found: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for (parent, children) in &family.children {
            for child in children {
                // A child that waits for recipients of its own shows that broadcast instead.
                let made_by = expected
                    .iter()
                    .find(|((source, _), ids)| source == parent && ids.contains(text(child, "id")));
                match (made_by, child["broadcast"].as_str()) {
                    (Some((key, _)), _) => {
                        found.entry(*key).or_default().insert(text(child, "id"));
                    }
                    (None, Some(broadcast)) if child["phase"] != "awaiting_merge" => {
                        panic!("L4: of the half-done broadcast {broadcast}: {child}")
                    }
                    (None, _) => {}
                }
            }
        }
        assert_eq!(
            found, expected,
            "L4: a broadcast has other children than told"
        );
    }

    /// A storm that never met the hard cases proves little.
    pub(crate) fn expect_coverage(&self, kills: usize) {
        if kills < 200 {
            return;
        }
        assert!(self.acknowledged > 300 && self.lost > 50, "{self}");
        for kind in [
            "thread.archived",
            "session.spawned",
            "session.turn_ended",
            "session.answered",
            "session.ended",
            "session.restored",
            "session.merged",
            "session.budget_returned",
            "handoff.committed",
            "handoff.reverted",
            "broadcast.committed",
            "broadcast.finished",
            "summary.recorded",
            "audit.refused",
        ] {
            assert!(self.kinds.contains_key(kind), "no `{kind}` in {self}");
        }
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reverted = self.kinds.get("handoff.reverted").copied().unwrap_or(0);
        write!(
            f,
            "{} changes acknowledged, {} refused, {} answers lost (of them {} carried out); {} events, {} sessions, \
             {reverted} handoffs undone",
            self.acknowledged, self.refused, self.lost, self.lost_but_done, self.last, self.checked
        )
    }
}

fn same_answer(operation: &Operation, first: &Answer, again: &Answer) {
    assert!(
        again.replayed,
        "acknowledged and lost, so done again: {operation:?}\nfirst {first:?}\nagain {again:?}"
    );
    assert_eq!(first.status, again.status, "{operation:?}");
    assert_eq!(first.body, again.body, "{operation:?}");
}

/// What was acknowledged is there, or what came of it.
fn check_kept(connection: &mut Connection, acknowledged: &Value) {
    if let Some(list) = acknowledged["data"].as_array() {
        list.iter().for_each(|each| check_kept(connection, each));
        return;
    }
    let id = text(acknowledged, "id");
    let path = match id.split_once('_') {
        Some(("thr", _)) => format!("/api/v1/threads/{id}"),
        Some(("sum", _)) => format!("/api/v1/sessions/{}/summary", text(acknowledged, "session")),
        // Receipts have no call of their own; the repeated request has shown this one.
        Some(_) => return,
        None => format!("/api/v1/sessions/{id}"),
    };
    let now = connection.get(&path);
    let grown = |field: &str| now[field].as_u64() >= acknowledged[field].as_u64();
    assert!(grown("version"), "{now}\nwas {acknowledged}");
    if now["version"] == acknowledged["version"] {
        assert_eq!(&now, acknowledged, "changed without a new version");
    }
    assert!(
        grown("owner_version") && grown("run"),
        "{now}\nwas {acknowledged}"
    );
    if now["owner_version"] == acknowledged["owner_version"] {
        assert_eq!(now["owner"], acknowledged["owner"], "{now}");
    }
    for list in ["previous_owners", "merges"] {
        if let (Some(was), Some(is)) = (acknowledged[list].as_array(), now[list].as_array()) {
            assert!(is.starts_with(was), "{now}\nwas {acknowledged}");
        }
    }
}

type Limits = HashMap<String, (u64, u64)>;

fn limits(connection: &mut Connection) -> Limits {
    let number = |value: &Value| value.as_u64().expect("a limit is a number");
    let projects = connection.list("/api/v1/projects?");
    let limits = projects.iter().map(|project| {
        let limits = &project["limits"];
        (
            text(project, "id").to_owned(),
            (number(&limits["depth"]), number(&limits["width"])),
        )
    });
    limits.collect()
}

struct Family<'a> {
    by_id: HashMap<&'a str, &'a Value>,
    children: BTreeMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Family<'a> {
    fn new(sessions: &'a [Value]) -> Self {
        let by_id = sessions.iter().map(|s| (text(s, "id"), s)).collect();
        let mut children: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for session in sessions {
            if let Some(parent) = session["parent"].as_str() {
                children.entry(parent).or_default().push(session);
            }
        }
        Self { by_id, children }
    }

    fn check(&self, session: &Value, limits: &Limits) {
        let phase = text(session, "phase");
        assert!(
            !matches!(phase, "locked" | "spawning"),
            "L4: left half-done: {session}"
        );
        let (most_depth, most_width) = limits[text(session, "project")];
        if let Some(parent) = session["parent"].as_str() {
            let parent = self.by_id[parent];
            let depth = parent["depth"].as_u64().map(|depth| depth + 1);
            assert_eq!(session["depth"].as_u64(), depth, "{session}");
            assert_eq!(session["thread"], parent["thread"], "{session}");
        }
        assert!(
            session["depth"].as_u64() <= Some(most_depth),
            "L8: {session}"
        );
        let id = text(session, "id");
        let children = self.children.get(id).map_or(&[][..], Vec::as_slice);
        let (live, over): (Vec<&Value>, Vec<&Value>) = children.iter().partition(|c| is_live(c));
        assert!(live.len() as u64 <= most_width, "L8: {session}");
        if phase == "awaiting_merge" {
            let waits = live.iter().any(|c| c["broadcast"] == session["broadcast"]);
            assert!(
                waits || live.iter().any(|c| c["phase"] == "awaiting_merge"),
                "waits for nobody: {session}"
            );
        }
        for unit in ["tokens", "cost"] {
            check_account(unit, session, &live, &over);
        }
    }
}

fn is_live(session: &Value) -> bool {
    !matches!(text(session, "phase"), "ended" | "archived")
}

/// A limited session sets aside what its live children may spend; what ended ones took is charged to it.
fn check_account(unit: &str, session: &Value, live: &[&Value], over: &[&Value]) {
    // Millionths, so that dollars add up exactly.
    let amount = |account: &Value, field: &str| {
        (account[field].as_f64().unwrap_or(0.0) * 1e6).round() as u64
    };
    let taken = |account: &Value| {
        amount(account, "spent") + amount(account, "reserved") + amount(account, "children")
    };
    let account = &session["budget"][unit];
    let children: u64 = over.iter().map(|child| taken(&child["budget"][unit])).sum();
    assert_eq!(
        amount(account, "children"),
        children,
        "L8: charges of ended children, {unit}: {session}"
    );
    let limits = live
        .iter()
        .map(|child| &child["budget"][unit])
        .map(|account| taken(account).max(amount(account, "limit")));
    let reserved = if account["limit"].is_null() {
        0
    } else {
        limits.sum()
    };
    assert_eq!(
        amount(account, "reserved"),
        reserved,
        "L8: shares of live children, {unit}: {session}"
    );
    if !account["limit"].is_null() {
        let left = amount(account, "limit").saturating_sub(taken(account));
        assert_eq!(amount(account, "available"), left, "L8: {unit}: {session}");
    }
}
