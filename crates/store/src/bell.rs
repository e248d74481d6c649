//! The bell: rings when something to publish was committed, here or by another process on the same PostgreSQL.

use crate::database::Database;
use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Config, NoTls};

statements! {
    /// For PostgreSQL; on SQLite there is nobody else.
    RING_OTHERS = "SELECT 1", postgres: "SELECT pg_notify('guerdon_outbox', '')";
}

/// How soon a listener that lost its connection tries again; until then the safety net has to do.
const RECONNECT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Bell {
    anybody: watch::Sender<u64>,
    ourselves: watch::Sender<u64>,
}

impl Bell {
    /// After a commit of this process.
    pub(crate) fn ring(&self) {
        ring(&self.ourselves);
        ring(&self.anybody);
    }

    pub(crate) fn hear(&self) -> watch::Receiver<u64> {
        self.anybody.subscribe()
    }

    pub(crate) fn hear_ourselves(&self) -> watch::Receiver<u64> {
        self.ourselves.subscribe()
    }
}

fn ring(bell: &watch::Sender<u64>) {
    bell.send_modify(|rings| *rings = rings.wrapping_add(1));
}

/// Rings every process's bell that listens on this database.
pub fn ring_others(tx: &mut Tx<'_>) -> Result<(), Fault> {
    tx.query(&RING_OTHERS, &[], |_| Ok(())).map(drop)
}

/// A thread that waits for other processes to ring.
#[derive(Debug)]
pub(crate) struct Listener(watch::Sender<bool>);

impl Listener {
    /// None where there cannot be others.
    pub(crate) fn start(database: &Database, name: &str, bell: &Bell) -> Option<Self> {
        let Database::Postgres(config) = database else { return None };
        let mut config = (**config).clone();
        config.application_name(format!("{name}-listener")).keepalives(true).connect_timeout(RECONNECT * 2);
        let (stop, mut stopped) = watch::channel(false);
        let bell = bell.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let listen = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = listen_for_ever(&config, &bell) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
            });
        };
        std::thread::Builder::new().name("store-listener".into()).spawn(listen).ok()?;
        Some(Self(stop))
    }

    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

async fn listen_for_ever(config: &Config, bell: &Bell) {
    loop {
        if let Err(error) = listen(config, bell).await {
            tracing::debug!(%error, "not listening for other processes' commits for a moment");
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen(config: &Config, bell: &Bell) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let rung = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message? {
                ring(&bell.anybody);
            }
        }
        Ok(())
    };
    let begun = async {
        client.batch_execute("LISTEN guerdon_outbox").await?;
        // Whatever was committed meanwhile was not heard of.
        ring(&bell.anybody);
        std::future::pending::<Result<(), tokio_postgres::Error>>().await
    };
    tokio::select! {
        ended = rung => ended,
        failed = begun => failed,
    }
}
