//! A hot copy that expired whole, as tiers with expiry must let it. The second and third defect of the older
//! system: there a part expired and the rest was then overwritten.

use std::sync::Arc;

use skein_domain::{TenantId, Timestamp};
use skein_transcript::service::{ForkCreation, HotCopy};
use skein_transcript::{
    Block, HistoryPoint, Message, MessageRole, RunNumber, Tiers, TranscriptId, Transcripts,
    WriteContext,
};
use skein_transcript_conformance::memory::{MemoryCold, MemoryHot};

const BY: WriteContext = WriteContext {
    run: RunNumber(1),
    at: Timestamp::from_micros(1),
};

fn message(id: &str) -> Message {
    let blocks = vec![Block::Text(id.to_owned())];
    Message::new(id.parse().unwrap(), MessageRole::User, blocks, BY.at)
}

async fn said(all: &Transcripts, id: &TranscriptId) -> Vec<String> {
    let shown = all.open(id).context().await.unwrap();
    shown.iter().map(|m| m.id.to_string()).collect()
}

#[test]
fn what_expired_comes_back_as_it_was_flushed_and_forks_of_the_lost_part_notice() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (hot, tenant) = (Arc::new(MemoryHot::default()), TenantId::default_tenant());
        let all = Tiers::new(hot.clone(), Arc::new(MemoryCold::default())).tenant(tenant.clone());
        let [t, kept, lost] = ["t", "kept", "lost"].map(|id| id.parse::<TranscriptId>().unwrap());
        assert_eq!(all.create(&t, BY).await, Ok(ForkCreation::New));
        let transcript = all.open(&t);
        transcript
            .append(BY, &[message("a"), message("b")])
            .await
            .unwrap();
        transcript.flush(HotCopy::Hot).await.unwrap();
        all.fork(&t, &HistoryPoint::Head, &kept, BY).await.unwrap();
        transcript.append(BY, &[message("c")]).await.unwrap();
        all.fork(&t, &HistoryPoint::Head, &lost, BY).await.unwrap();
        hot.expire(&tenant, &t);
        assert_eq!(said(&all, &t).await, ["a", "b"]);
        transcript.append(BY, &[message("d")]).await.unwrap();
        assert_eq!(said(&all, &t).await, ["a", "b", "d"]);
        assert_eq!(said(&all, &kept).await, ["a", "b"]);
        // It went on from a message that is no more; `d` is not taken for it.
        let refused = all.open(&lost).context().await.unwrap_err();
        assert!(refused.to_string().contains("lost entries"), "{refused}");
    });
}
