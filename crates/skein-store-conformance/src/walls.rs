//! L7: nothing is visible across tenants.

use skein_domain::{Key, Kind, Project, Session, Step, Thread};

use crate::Subject;
use crate::fixture::{at, note, project, session, tenant, thread, turn_began, world, write};
use skein_store::access::RecordQuery;
use skein_store::backend::RowFilter;
use skein_store::reply::PriorRequest;

/// The same ids on both sides of the wall, with other contents; and a third tenant with nothing.
pub fn l7_tenants_do_not_see_each_other(subject: &mut Subject) {
    let here = world(&subject.store);
    let (there, empty) = (
        tenant(&subject.store, "other"),
        tenant(&subject.store, "empty"),
    );
    let key: Key = "key".parse().unwrap();
    here.add(&session(1, None)).unwrap();
    here.add(&session(2, Some(1))).unwrap();
    let kept = key.clone();
    write(&here.tenant, move |writer| {
        writer.keep_reply(&kept, &[1; 32], "here".into())?;
        let _ = writer.claim("name:api", "here")?;
        writer.append_event(&note("here"))
    })
    .unwrap();
    let strange = Session {
        run: 77,
        ..session(1, None)
    };
    let made = strange.clone();
    write(&there, move |writer| {
        writer.insert(&Project {
            path: None,
            ..project()
        })?;
        writer.insert(&Thread {
            title: "other".parse().unwrap(),
            ..thread(1)
        })?;
        writer.insert(&made)?;
        assert_eq!(writer.claim("name:api", "there")?, Ok(()));
        writer.append_event(&turn_began(&made))
    })
    .unwrap();

    there
        .read_blocking(|reader| {
            assert_eq!(reader.get::<Session>("api-1")?, strange);
            assert_eq!(reader.resolve::<Session>("api-")?, strange);
            assert_eq!(reader.find::<Session>("api-2")?, None);
            assert_eq!(reader.get::<Project>(project().id.as_str())?.path, None);
            assert_eq!(
                reader.all::<Session>(&RowFilter::default())?,
                std::slice::from_ref(&strange)
            );
            let query = RecordQuery::oldest_first(RowFilter::default(), 10);
            assert_eq!(
                reader.list::<Session>(&query)?.items,
                std::slice::from_ref(&strange)
            );
            assert_eq!(
                reader.list_where::<Session>(&query, |_| true)?.items.len(),
                1
            );
            assert_eq!(reader.count::<Session>(&RowFilter::default())?, 1);
            let children = RowFilter {
                parent: Some("api-1".into()),
                ..RowFilter::default()
            };
            assert_eq!(reader.count::<Session>(&children)?, 0);
            assert_eq!(reader.claimed_by("name:api")?, Some("there".into()));
            assert_eq!(reader.earlier(&key, &[1; 32])?, PriorRequest::Never);
            assert_eq!(reader.head()?.seq, 1);
            assert_eq!(reader.events(0, None, 10)?.len(), 1);
            assert_eq!(reader.events(0, Some(&strange.id), 10)?.len(), 1);
            assert_eq!(reader.verify()?.checked, 1);
            Ok(())
        })
        .unwrap();
    empty
        .read_blocking(|reader| {
            assert_eq!(
                reader.get::<Session>("api-1").unwrap_err().kind(),
                Kind::NotFound
            );
            assert_eq!(
                reader.resolve::<Session>("api-").unwrap_err().kind(),
                Kind::NotFound
            );
            assert!(reader.all::<Session>(&RowFilter::default())?.is_empty());
            assert_eq!(reader.claimed_by("name:api")?, None);
            assert_eq!(reader.head()?.seq, 0);
            assert!(reader.events(0, None, 10)?.is_empty());
            let verdict = reader.verify()?;
            assert_eq!((verdict.checked, verdict.broken), (0, None));
            Ok(())
        })
        .unwrap();
    assert_eq!(here.find(1), Some(session(1, None)));
    let names: Vec<String> = subject
        .store
        .tenants()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(names, ["default", "other"]);
}

pub fn l7_tenants_cannot_change_each_other(subject: &mut Subject) {
    let here = world(&subject.store);
    here.add(&session(1, None)).unwrap();
    here.add(&session(2, None)).unwrap();
    let there = tenant(&subject.store, "other");
    let after = session(1, None).step(Step::BeginTurn, at(5)).unwrap();
    let update = write(&there, move |writer| {
        writer.update(&after)?;
        writer.append_event(&turn_began(&after))
    });
    assert_eq!(update.unwrap_err().kind(), Kind::NotFound);
    let delete = write(&there, |writer| {
        writer.delete(&session(2, None))?;
        writer.append_event(&note("gone"))
    });
    assert_eq!(delete.unwrap_err().kind(), Kind::NotFound);
    write(&there, |writer| {
        writer.release("name:api")?;
        writer.seal_events(u64::MAX)?;
        writer.forget_replies(at(i64::MAX), 100)?;
        writer.append_event(&note("swept"))
    })
    .unwrap();
    assert_eq!(
        (here.find(1), here.find(2)),
        (Some(session(1, None)), Some(session(2, None)))
    );
    let events = here
        .tenant
        .read_blocking(|r| r.events(0, None, 10))
        .unwrap();
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2, 3]);
}
