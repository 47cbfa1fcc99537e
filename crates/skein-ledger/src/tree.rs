//! A session's ancestry and everything below it.

use std::collections::BTreeMap;

use skein_domain::Session;
use skein_store::Reader;

use crate::access::{MOST_ANCESTORS, endless};
use crate::error::{Error, StoreResult};
use crate::filter::of_parent;
use crate::requests::SessionRequests;

#[derive(Clone, Debug)]
pub struct Tree {
    /// Root first.
    pub ancestors: Vec<Session>,
    pub root: Node,
    /// Set when the tree has more sessions than are shown.
    pub truncated: bool,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub session: Session,
    pub children: Vec<Node>,
}

/// Most sessions shown in one tree.
const MOST: usize = 5000;

impl SessionRequests<'_> {
    pub async fn tree(self, reference: String) -> Result<Tree, Error> {
        self.0
            .read(move |reader| {
                let session: Session = reader.resolve(&reference)?;
                let ancestors = ancestors(reader, &session)?;
                let (below, truncated) = descendants(reader, &session)?;
                Ok(Tree {
                    ancestors,
                    root: assemble(session, &below),
                    truncated,
                })
            })
            .await
    }
}

fn ancestors(reader: &Reader<'_>, session: &Session) -> StoreResult<Vec<Session>> {
    let mut line = vec![];
    let mut next = session.parent.clone();
    while let Some(id) = next {
        if line.len() > MOST_ANCESTORS {
            return Err(endless(session));
        }
        let parent: Session = reader.get(id.as_str())?;
        next = parent.parent.clone();
        line.push(parent);
    }
    line.reverse();
    Ok(line)
}

type Below = BTreeMap<String, Vec<Session>>;

fn descendants(reader: &Reader<'_>, session: &Session) -> StoreResult<(Below, bool)> {
    let mut below = Below::new();
    let mut queue = vec![session.id.clone()];
    let mut count = 0;
    while let Some(id) = queue.pop() {
        let filter = of_parent(&id);
        let children: Vec<Session> = reader.all(&filter)?;
        count += children.len();
        if count > MOST {
            return Ok((below, true));
        }
        queue.extend(children.iter().map(|c| c.id.clone()));
        below.insert(id.to_string(), children);
    }
    Ok((below, false))
}

/// Depth is bounded by the project's limit, so recursion is too.
fn assemble(session: Session, below: &Below) -> Node {
    let children = below.get(session.id.as_str()).cloned().unwrap_or_default();
    Node {
        children: children.into_iter().map(|c| assemble(c, below)).collect(),
        session,
    }
}
