//! What the typed layer relies on, asked of the backend itself.

use std::sync::mpsc;

use skein_domain::{TenantId, Timestamp};

use crate::Subject;
use skein_store::backend::{Insert, RawWrite, Result, Row, RowIndex, Swap, Table};
use skein_store::error::Error;
use skein_store::event::{ChainHead, Event};

pub(crate) fn submit(
    subject: &Subject,
    job: impl FnMut(&mut dyn RawWrite) -> Result<()> + Send + 'static,
) -> mpsc::Receiver<Result<()>> {
    let (send, receive) = mpsc::channel();
    let reply = Box::new(move |result| send.send(result).unwrap());
    subject
        .backend
        .submit(TenantId::default_tenant(), Box::new(job), reply);
    receive
}

pub(crate) fn row(id: &str, version: u64, body: &str) -> Row {
    Row {
        id: id.into(),
        version,
        index: RowIndex::default(),
        body: body.into(),
    }
}

fn event(seq: u64, before: &ChainHead) -> Event {
    let mut event = Event {
        seq,
        at: Timestamp::from_micros(1),
        kind: "test".into(),
        project: None,
        thread: None,
        session: None,
        actor: "system".into(),
        data: "{}".into(),
        prev_hash: before.hash,
        hash: [0; 32],
    };
    event.hash = event.expected_hash(&TenantId::default_tenant());
    event
}

pub fn l1_the_backend_itself_compares_versions(subject: &mut Subject) {
    let table = Table::Session;
    let job = move |raw: &mut dyn RawWrite| {
        assert_eq!(raw.replace(table, &row("a", 2, "x"), 1)?, Swap::Missing);
        assert_eq!(raw.delete(table, "a", 1)?, Swap::Missing);
        assert_eq!(raw.insert(table, &row("a", 1, "first"))?, Insert::Done);
        assert_eq!(raw.insert(table, &row("a", 1, "again"))?, Insert::Exists);
        assert_eq!(
            raw.replace(table, &row("a", 6, "x"), 5)?,
            Swap::Stale { actual: 1 }
        );
        assert_eq!(
            raw.replace(table, &row("a", 1, "x"), 0)?,
            Swap::Stale { actual: 1 }
        );
        assert_eq!(raw.delete(table, "a", 2)?, Swap::Stale { actual: 1 });
        assert_eq!(raw.get(table, "a")?, Some(row("a", 1, "first")));
        assert_eq!(raw.get(Table::Thread, "a")?, None);
        assert_eq!(raw.replace(table, &row("a", 2, "second"), 1)?, Swap::Done);
        assert_eq!(raw.get(table, "a")?, Some(row("a", 2, "second")));
        assert_eq!(raw.delete(table, "a", 2)?, Swap::Done);
        assert_eq!(raw.get(table, "a")?, None);
        Ok(())
    };
    submit(subject, job).recv().unwrap().unwrap();
    // An event that is not the next one fails the job.
    for wrong in [0, 2] {
        let result = submit(subject, move |raw| {
            raw.append(&event(wrong, &ChainHead::START))
        });
        assert!(
            matches!(result.recv().unwrap(), Err(Error::Bug(_))),
            "{wrong}"
        );
    }
    let twice = submit(subject, |raw| {
        raw.append(&event(1, &ChainHead::START))?;
        raw.append(&event(1, &ChainHead::START))
    });
    assert!(matches!(twice.recv().unwrap(), Err(Error::Bug(_))));
    submit(subject, |raw| raw.append(&event(1, &ChainHead::START)))
        .recv()
        .unwrap()
        .unwrap();
}

pub fn l1_replies_come_in_order(subject: &mut Subject) {
    let (send, receive) = mpsc::channel();
    for n in 0..2_000_u64 {
        let (ran, replied) = (send.clone(), send.clone());
        let job = Box::new(move |_: &mut dyn RawWrite| {
            ran.send(("ran", n)).unwrap();
            Ok(())
        });
        let reply = Box::new(move |_| replied.send(("replied", n)).unwrap());
        subject
            .backend
            .submit(TenantId::default_tenant(), job, reply);
    }
    drop(send);
    let seen: Vec<_> = receive.iter().collect();
    for step in ["ran", "replied"] {
        let order = seen.iter().filter(|(s, _)| *s == step).map(|(_, n)| *n);
        assert!(order.eq(0..2_000), "{step}");
    }
}
