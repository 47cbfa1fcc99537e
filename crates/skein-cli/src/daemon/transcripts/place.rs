//! The location of this home in the cold tier: a prefix that no other home uses, with a marker. A home that has written
//! there finds its marker, or it is not the location (an unmounted disk, another bucket, an emptied one) and must not
//! be taken for an empty one.

use std::sync::Arc;

use skein_transcript::cold::{Name, Object, PutCondition, PutResult};
use skein_transcript::{Cold, Error, Result, async_trait};
use skein_transcript_object::{BucketSettings as ColdSettings, Location};

use super::identity::HomeIdentity;
use super::lazy::OpenFuture;

/// No object of a transcript has such a name: after the tenant comes `manifests` or `segments`.
const MARKER: &str = "home/marker";
/// How the folder `cold` of the home is recorded; it moves with the home.
pub(super) const OF_HOME: &str = "the folder `cold` of the home";

/// Where cold transcripts are to be kept.
#[derive(Clone, Debug)]
pub(super) struct ColdLocation {
    pub(super) identity: Arc<HomeIdentity>,
    pub(super) location: Location,
    /// The location, for people and for the home's record.
    pub(super) label: String,
    pub(super) variables: Vec<(String, String)>,
}

impl ColdLocation {
    pub(super) fn open(&self) -> OpenFuture<dyn Cold> {
        let place = self.clone();
        Box::pin(async move { place.opened().await })
    }

    async fn opened(self) -> Result<Arc<dyn Cold>> {
        let used = self.identity.cold();
        let location = self.own_location();
        let settings = ColdSettings::new(location.clone()).variables(self.variables.clone());
        let is_used = used.is_some();
        let opening = tokio::task::spawn_blocking(move || {
            // A folder that existed before is not created: its disk may be mounted later.
            if is_used && is_gone(&location) {
                return Ok(None);
            }
            settings.open().map(Some)
        });
        let opened = opening
            .await
            .map_err(|_| Error::cold("the work was cut off"))??;
        let Some(used) = used else {
            let cold = opened.ok_or_else(|| Error::Bug("a new place is gone".into()))?;
            return Ok(Arc::new(Marked {
                cold,
                place: self,
                marked: tokio::sync::OnceCell::new(),
            }));
        };
        let marker = Name::from_stored(MARKER);
        let found = match &opened {
            Some(cold) => cold.get(&marker).await?,
            None => None,
        };
        match (opened, found) {
            (Some(cold), Some(found)) if found.body == self.identity.id().as_bytes() => {
                if used != self.label {
                    self.note().await?;
                }
                Ok(cold)
            }
            _ => Err(missing(&used, &self.label)),
        }
    }

    /// The prefix of this home.
    fn own_location(&self) -> Location {
        let own = format!("home-{}", self.identity.id());
        match self.location.clone() {
            Location::Folder(root) => Location::Folder(root.join(own)),
            Location::Bucket {
                provider,
                bucket,
                prefix,
            } => Location::Bucket {
                provider,
                bucket,
                prefix: if prefix.is_empty() {
                    own
                } else {
                    format!("{prefix}/{own}")
                },
            },
        }
    }

    async fn note(&self) -> Result<()> {
        let (identity, label) = (self.identity.clone(), self.label.clone());
        let noted = tokio::task::spawn_blocking(move || identity.note_cold(&label)).await;
        let noted = noted.map_err(|_| Error::cold("the work was cut off"))?;
        noted.map_err(|e| Error::cold(format!("cannot note in the home where it is: {e}")))
    }
}

fn is_gone(location: &Location) -> bool {
    match location {
        Location::Folder(root) => matches!(root.join(MARKER).try_exists(), Ok(false)),
        Location::Bucket { .. } => false,
    }
}

/// For a home that used `used` and finds nothing of it at its current location.
pub(super) fn missing(used: &str, now: &str) -> Error {
    let (reason, hints) = if used == now {
        (
            format!("the transcripts that this home has put into {used} are missing"),
            vec![
                "mount its disk, or restore it; nothing is read or written until then".into(),
                "if it was moved, set `transcripts.cold` to its new location".into(),
            ],
        )
    } else {
        (
            format!("this home's transcripts are in {used}, and `transcripts.cold` is {now}"),
            vec![
                format!("set `transcripts.cold` back to {used}"),
                "or copy everything from there to the new location, `home/marker` included".into(),
            ],
        )
    };
    Error::Unusable {
        tier: "cold",
        reason,
        hints,
    }
}

/// A location that is not used yet: the marker and the home's record come before anything else.
#[derive(Debug)]
struct Marked {
    cold: Arc<dyn Cold>,
    place: ColdLocation,
    marked: tokio::sync::OnceCell<()>,
}

impl Marked {
    async fn mark(&self) -> Result<()> {
        let (marker, id) = (Name::from_stored(MARKER), self.place.identity.id());
        let body = id.as_bytes().to_vec();
        if self
            .cold
            .put(&marker, body.clone(), PutCondition::Absent)
            .await?
            == PutResult::Refused
        {
            let there = self.cold.get(&marker).await?;
            if there.is_none_or(|there| there.body != body) {
                return Err(Error::corrupt(marker, "it is not of this home"));
            }
        }
        self.place.note().await
    }
}

#[async_trait]
impl Cold for Marked {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        self.cold.get(name).await
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        self.marked.get_or_try_init(|| self.mark()).await?;
        self.cold.put(name, body, when).await
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        self.cold.delete(name).await
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        self.cold.list(prefix, after, limit).await
    }
}
