//! The layout of the cold tier: compressed segments of entries, and the manifest that names them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use skein_domain::TenantId;

use crate::chain::{Chain, Entry, Strand, TranscriptHead};
use crate::cipher::Cipher;
use crate::cold::{Cold, Name, PutCondition, PutResult, Tag};
use crate::error::{Error, Result};
use crate::id::{MessageId, TranscriptId};
use crate::record::{self, ManifestV1, SealedV1};

/// A segment is complete with this many bytes or entries.
pub(crate) const SEGMENT_BYTES: usize = 4 * 1024 * 1024;
pub(crate) const SEGMENT_ENTRIES: usize = 4096;
/// Decompressed segments in the cache, so that paging does not fetch one repeatedly.
const KEPT: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) end: u64,
    pub(crate) hash: String,
    /// The uncompressed size.
    pub(crate) bytes: u64,
}

/// The part of a strand that is in the cold tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColdStrand {
    pub(crate) strand: Strand,
    pub(crate) segments: Vec<Segment>,
    /// The hash of the last entry.
    pub(crate) chain: Chain,
}

impl ColdStrand {
    pub(crate) fn end(&self) -> u64 {
        self.segments.last().map_or(self.strand.start, |s| s.end)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) head: TranscriptHead,
    pub(crate) strands: Vec<ColdStrand>,
}

type CachedSegment = (Name, Arc<Vec<Entry>>);

/// The cold tier with its caches.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub(crate) cold: Arc<dyn Cold>,
    pub(crate) cipher: Arc<dyn Cipher>,
    kept: Arc<Mutex<VecDeque<CachedSegment>>>,
    ids: Arc<Mutex<Fingerprints>>,
}

/// Fingerprints of the ids in a segment, to find out what it does not contain without decompressing it.
#[derive(Debug, Default)]
pub(crate) struct SegmentIds(Box<[u64]>);

impl SegmentIds {
    fn of(entries: &[Entry]) -> Self {
        let ids = entries.iter().filter_map(record::id);
        let mut ids: Vec<u64> = ids.map(|id| fingerprint(&id)).collect();
        ids.sort_unstable();
        Self(ids.into())
    }

    /// Whether the segment may contain the message; `false` is certain.
    pub(crate) fn has(&self, message: &MessageId) -> bool {
        self.0.binary_search(&fingerprint(message.as_str())).is_ok()
    }
}

fn fingerprint(id: &str) -> u64 {
    let hash = blake3::hash(id.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// Fingerprints of recently searched segments.
#[derive(Debug, Default)]
struct Fingerprints {
    of: HashMap<Name, Arc<SegmentIds>>,
    count: usize,
}

impl Fingerprints {
    /// 16 MiB.
    const MOST: usize = 2 << 20;

    fn keep(&mut self, name: Name, ids: Arc<SegmentIds>) {
        if self.count + ids.0.len() > Self::MOST {
            *self = Self::default();
        }
        self.count += ids.0.len();
        self.of.insert(name, ids);
    }
}

impl Objects {
    pub(crate) fn new(cold: Arc<dyn Cold>, cipher: Arc<dyn Cipher>) -> Self {
        Self {
            cold,
            cipher,
            kept: Arc::default(),
            ids: Arc::default(),
        }
    }

    pub(crate) async fn manifest(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
    ) -> Result<Option<(Manifest, Tag)>> {
        let name = Name::manifest(tenant, id);
        let Some(object) = self.cold.get(&name).await? else {
            return Ok(None);
        };
        let (cipher, tenant, id) = (self.cipher.clone(), tenant.clone(), id.clone());
        let opened = run_blocking(move || {
            let plain = cipher.open(&tenant, &name, &object.body)?;
            let record: ManifestV1 = record::decode(name.as_str(), &plain)?;
            if record.transcript != id.as_str() {
                return Err(Error::corrupt(name, "it belongs to another transcript"));
            }
            let manifest = Manifest::try_from(record).map_err(|why| Error::corrupt(&name, why))?;
            Ok((manifest, object.tag))
        });
        opened.await.map(Some)
    }

    pub(crate) async fn put_manifest(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        manifest: &Manifest,
        when: PutCondition,
    ) -> Result<PutResult> {
        let name = Name::manifest(tenant, id);
        let body = record::encode(&ManifestV1::from((id, manifest)))?;
        let (cipher, tenant, of) = (self.cipher.clone(), tenant.clone(), name.clone());
        let sealed = run_blocking(move || cipher.seal(&tenant, &of, body.as_bytes())).await?;
        self.cold.put(&name, sealed, when).await
    }

    /// Stores the entries as one segment. An existing object is verified first: a crash or a faulty store may have left
    /// anything under the name.
    pub(crate) async fn put_segment(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        entries: Vec<Entry>,
    ) -> Result<Segment> {
        let (cipher, of, transcript) = (self.cipher.clone(), tenant.clone(), id.clone());
        let packed = run_blocking(move || seal(&*cipher, &of, &transcript, &entries)).await?;
        let (segment, name, body) = packed;
        if self
            .cold
            .put(&name, body.clone(), PutCondition::Absent)
            .await?
            == PutResult::Refused
        {
            let Some(there) = self.cold.get(&name).await? else {
                return Err(Error::cold("a segment appeared and disappeared"));
            };
            if self
                .unpack(tenant, &name, &segment, there.body)
                .await
                .is_err()
            {
                let when = PutCondition::Unchanged(there.tag);
                if self.cold.put(&name, body, when).await? == PutResult::Refused {
                    return Err(Error::cold("another writer is replacing a damaged segment"));
                }
            }
        }
        Ok(segment)
    }

    /// The entries of a segment that begins at `from`.
    pub(crate) async fn segment(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u64,
        segment: &Segment,
    ) -> Result<Arc<Vec<Entry>>> {
        let name = Name::segment(tenant, id, &segment.hash);
        if let Some(kept) = self.kept(&name) {
            return Ok(kept);
        }
        let object = self.cold.get(&name).await?;
        let object = object.ok_or_else(|| Error::corrupt(&name, "it is missing"))?;
        let entries = self.unpack(tenant, &name, segment, object.body).await?;
        let ends = (
            entries.first().map(|e| e.position),
            entries.last().map(|e| e.position + 1),
        );
        if ends != (Some(from), Some(segment.end)) {
            return Err(Error::corrupt(
                &name,
                "it does not contain the expected positions",
            ));
        }
        let entries = Arc::new(entries);
        self.keep(name, entries.clone());
        Ok(entries)
    }

    pub(crate) async fn ids(
        &self,
        tenant: &TenantId,
        id: &TranscriptId,
        from: u64,
        segment: &Segment,
    ) -> Result<Arc<SegmentIds>> {
        let name = Name::segment(tenant, id, &segment.hash);
        let lock = || self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().of.get(&name) {
            return Ok(known.clone());
        }
        let entries = self.segment(tenant, id, from, segment).await?;
        let ids = Arc::new(run_blocking(move || Ok(SegmentIds::of(&entries))).await?);
        lock().keep(name, ids.clone());
        Ok(ids)
    }

    async fn unpack(
        &self,
        tenant: &TenantId,
        name: &Name,
        segment: &Segment,
        body: Vec<u8>,
    ) -> Result<Vec<Entry>> {
        let (cipher, tenant) = (self.cipher.clone(), tenant.clone());
        let (name, segment) = (name.clone(), segment.clone());
        run_blocking(move || open(&*cipher, &tenant, &name, &segment, &body)).await
    }

    fn kept(&self, name: &Name) -> Option<Arc<Vec<Entry>>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|k| k.0 == *name).map(|k| k.1.clone())
    }

    fn keep(&self, name: Name, entries: Arc<Vec<Entry>>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((name, entries));
        kept.truncate(KEPT);
    }
}

/// Runs compression and encryption outside the runtime's threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        // Without a runtime there is no other work to block.
        return job();
    };
    let done = runtime.spawn_blocking(job).await;
    done.map_err(|e| Error::Bug(format!("a job did not finish: {e}")))?
}

/// The compressed and encrypted segment, with its name.
fn seal(
    cipher: &dyn Cipher,
    tenant: &TenantId,
    id: &TranscriptId,
    entries: &[Entry],
) -> Result<(Segment, Name, Vec<u8>)> {
    let plain = pack(entries)?;
    let hash = cipher.fingerprints(tenant, &plain)?.swap_remove(0);
    let segment = Segment {
        end: entries.last().map_or(0, |e| e.position + 1),
        bytes: plain.len() as u64,
        hash,
    };
    let name = Name::segment(tenant, id, &segment.hash);
    let packed = zstd::bulk::compress(&plain, zstd::DEFAULT_COMPRESSION_LEVEL)
        .map_err(|e| Error::Bug(format!("cannot pack a segment: {e}")))?;
    let body = cipher.seal(tenant, &name, &packed)?;
    Ok((segment, name, body))
}

fn open(
    cipher: &dyn Cipher,
    tenant: &TenantId,
    name: &Name,
    segment: &Segment,
    body: &[u8],
) -> Result<Vec<Entry>> {
    let packed = cipher.open(tenant, name, body)?;
    // Bounded by the expected size, to guard against a decompression bomb.
    let plain = usize::try_from(segment.bytes)
        .map_err(|_| Error::corrupt(name, "it is too large"))
        .and_then(|size| {
            zstd::bulk::decompress(&packed, size).map_err(|e| Error::corrupt(name, e))
        })?;
    // The name is a fingerprint of the content, so one valid segment cannot replace another.
    if !cipher.fingerprints(tenant, &plain)?.contains(&segment.hash) {
        return Err(Error::corrupt(name, "its content does not match its name"));
    }
    unpack(&plain).ok_or_else(|| Error::corrupt(name, "its entries cannot be decoded"))
}

const MAGIC: &[u8] = b"skein segment 1\n";

/// The first position, then each entry with its length before it.
fn pack(entries: &[Entry]) -> Result<Vec<u8>> {
    let first = entries.first().map_or(0, |e| e.position);
    let mut out = [MAGIC, &first.to_le_bytes()].concat();
    for entry in entries {
        let bytes = entry.to_bytes();
        let length = u32::try_from(bytes.len());
        let length = length.map_err(|_| Error::Bug("an entry is too large to pack".into()))?;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    Ok(out)
}

fn unpack(plain: &[u8]) -> Option<Vec<Entry>> {
    let (first, mut rest) = plain.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let (mut position, mut entries) = (u64::from_le_bytes(*first), vec![]);
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (bytes, after) = after.split_at_checked(length)?;
        entries.push(Entry::from_bytes(position, bytes)?);
        (position, rest) = (position.checked_add(1)?, after);
    }
    Some(entries)
}

impl From<(&TranscriptId, &Manifest)> for ManifestV1 {
    fn from((id, manifest): (&TranscriptId, &Manifest)) -> Self {
        let segment = |s: &Segment| (s.end, s.hash.clone(), s.bytes);
        let sealed = |s: &ColdStrand| SealedV1 {
            strand: (&s.strand).into(),
            segments: s.segments.iter().map(segment).collect(),
            chain: s.chain.to_string(),
        };
        Self {
            v: 1,
            transcript: id.to_string(),
            head: (&manifest.head).into(),
            strands: manifest.strands.iter().map(sealed).collect(),
        }
    }
}

impl TryFrom<ManifestV1> for Manifest {
    type Error = String;
    fn try_from(record: ManifestV1) -> std::result::Result<Self, String> {
        let sealed = |s: SealedV1| {
            let strand = Strand::try_from(s.strand)?;
            let mut below = strand.start;
            let mut segments = vec![];
            for (end, hash, bytes) in s.segments {
                // The hash becomes part of a name, and later code computes with the ends.
                if end <= below || Chain::parse(&hash).is_none() {
                    return Err("its segments are not in order".to_owned());
                }
                below = end;
                segments.push(Segment { end, hash, bytes });
            }
            let chain = Chain::parse(&s.chain).ok_or("a hash is invalid")?;
            Ok(ColdStrand {
                strand,
                segments,
                chain,
            })
        };
        let head = TranscriptHead::try_from(record.head)?;
        let strands = record.strands.into_iter().map(sealed);
        let strands = strands.collect::<std::result::Result<Vec<_>, _>>()?;
        let ends = strands.get(head.strand as usize).map(ColdStrand::end);
        if strands.len() != head.strands as usize || ends != Some(head.end) {
            return Err("its strands do not match its head".into());
        }
        Ok(Self { head, strands })
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::Timestamp;

    use super::*;
    use crate::chain::Marks;
    use crate::id::RunNumber;
    use crate::usage::TokenUsage;

    fn manifest() -> Manifest {
        let head = TranscriptHead {
            version: 1,
            run: RunNumber(2),
            strand: 0,
            strands: 1,
            end: 3,
            chain: Chain([6; 32]),
            marks: Marks::default(),
            spent: TokenUsage::default(),
            origin: None,
            created_at: Timestamp::from_micros(8),
            touched_at: Timestamp::from_micros(9),
            said_at: Timestamp::from_micros(10),
        };
        let segment = Segment {
            end: 3,
            hash: Chain([5; 32]).to_string(),
            bytes: 99,
        };
        let sealed = ColdStrand {
            strand: Strand::ROOT,
            segments: vec![segment],
            chain: Chain([6; 32]),
        };
        Manifest {
            head,
            strands: vec![sealed],
        }
    }

    #[test]
    fn stored_manifests_keep_their_form() {
        let id = "api-1".parse().unwrap();
        let body = record::encode(&ManifestV1::from((&id, &manifest()))).unwrap();
        let (five, six) = ("05".repeat(32), "06".repeat(32));
        let expected = format!(
            r#"{{"v":1,"transcript":"api-1","head":{{"v":1,"version":1,"run":2,"strand":0,"strands":1,"end":3,"chain":"{six}","messages":0,"state":null,"spent":{{"input":0,"output":0,"cache_read":0,"cache_write":0,"reasoning":0,"cost_micros":0}},"origin":null,"created_at":8,"touched_at":9,"said_at":10}},"strands":[{{"strand":{{"v":1,"start":0,"lineage":[]}},"segments":[[3,"{five}",99]],"chain":"{six}"}}]}}"#
        );
        assert_eq!(body, expected);
        let record: ManifestV1 = record::decode("it", body.as_bytes()).unwrap();
        assert_eq!(Manifest::try_from(record), Ok(manifest()));
    }

    #[test]
    fn manifests_that_do_not_add_up_are_refused() {
        let id = "api-1".parse().unwrap();
        let breaks: [fn(&mut Manifest); 4] = [
            |m| m.head.end = 4,
            |m| m.head.strand = 1,
            |m| m.strands[0].segments[0].hash = "../../etc".into(),
            |m| m.strands[0].segments[0].end = 0,
        ];
        for change in breaks {
            let mut bad = manifest();
            change(&mut bad);
            let record = ManifestV1::from((&id, &bad));
            assert!(Manifest::try_from(record).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn stored_segments_keep_their_form() {
        let entry = |position: u64, payload: &[u8]| Entry {
            position,
            chain: Chain([7; 32]),
            payload: payload.to_vec(),
        };
        let entries = vec![entry(258, b"one"), entry(259, b"")];
        let plain = pack(&entries).unwrap();
        let mut expected = b"skein segment 1\n\x02\x01\0\0\0\0\0\0\x23\0\0\0".to_vec();
        expected.extend([7; 32]);
        expected.extend(b"one\x20\0\0\0");
        expected.extend([7; 32]);
        assert_eq!(plain, expected);
        assert_eq!(unpack(&plain), Some(entries));
        // Cut between two entries it is whole but short, which its hash and its ends tell.
        let whole: Vec<usize> = (0..plain.len())
            .filter(|cut| unpack(&plain[..*cut]).is_some())
            .collect();
        assert_eq!(whole, [24, 63]);
    }
}
