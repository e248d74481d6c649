//! A connection to PostgreSQL that blocks its thread, with a deadline on every call.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::Statement;
use std::collections::HashMap;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row, SimpleQueryMessage};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A little more than the server's own limit, so that it is the server that gives up first.
const CALL_TIMEOUT: Duration = Duration::from_secs(7);
const STATEMENT_TIMEOUT_MS: u64 = 5_000;
const LOCK_TIMEOUT_MS: u64 = 3_000;
/// For how long a process that stopped between two statements can hold others up: less than they wait for a lock.
const IDLE_IN_TRANSACTION_TIMEOUT_MS: u64 = 2_000;

const PARAMETER_TYPES: [Type; 6] =
    [Type::INT8, Type::TEXT, Type::BYTEA, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::BYTEA_ARRAY];

/// What a connection is for; it sets the server's limits on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Write,
    /// No statement takes longer than this.
    Read(Duration),
    /// Building an index may take as long as it takes.
    Migrate,
}

pub(crate) struct PgConnection {
    client: Client,
    /// By the address of the statement, which is a static.
    prepared: HashMap<usize, tokio_postgres::Statement>,
    /// Unique to this connection, so that its backend can be told from any other.
    name: String,
    backend_pid: i32,
    call_timeout: Duration,
    /// Whether BEGIN is to be sent with the next statement: it needs no round trip of its own.
    begins: bool,
    /// There until the end, when it is let go without waiting for anything that hangs.
    runtime: Option<Runtime>,
}

impl PgConnection {
    /// `name` must be unlike that of any other connection.
    pub(crate) fn connect(config: &Config, name: String, purpose: Use) -> Result<Self, Fault> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Fault::Unavailable(error.to_string()))?;
        let mut config = config.clone();
        config
            .application_name(&name)
            .connect_timeout(CONNECT_TIMEOUT)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(20));
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        let client = runtime.block_on(async {
            let connect = tokio::time::timeout(CONNECT_TIMEOUT * (hosts + 1), config.connect(NoTls));
            let (client, connection) = connect
                .await
                .map_err(|_| Fault::Unavailable("no answer while connecting".into()))?
                .map_err(|error| unreachable_database(&error))?;
            // Driven whenever this thread waits for an answer, which is the only time it has anything to do.
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL ended");
                }
            });
            Ok::<_, Fault>(client)
        })?;
        let call_timeout = match purpose {
            Use::Migrate => Duration::from_hours(1),
            Use::Write => CALL_TIMEOUT,
            Use::Read(timeout) => CALL_TIMEOUT.max(timeout * 2),
        };
        let mut connection = Self {
            client,
            prepared: HashMap::new(),
            name,
            backend_pid: 0,
            call_timeout,
            begins: false,
            runtime: Some(runtime),
        };
        connection.set_up(purpose)?;
        Ok(connection)
    }

    fn set_up(&mut self, purpose: Use) -> Result<(), Fault> {
        let limits = match purpose {
            Use::Write => format!(
                "SET statement_timeout = {STATEMENT_TIMEOUT_MS}; SET lock_timeout = {LOCK_TIMEOUT_MS}; \
                 SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_TIMEOUT_MS}; \
                 SET default_transaction_read_only = off;"
            ),
            Use::Read(timeout) => {
                let millis = timeout.as_millis();
                format!(
                    "SET statement_timeout = {millis}; SET default_transaction_read_only = on; \
                     SET idle_in_transaction_session_timeout = {millis};"
                )
            }
            Use::Migrate => "SET statement_timeout = 0; SET lock_timeout = 0;".into(),
        };
        // Statements are planned once, often while their table is still empty, and every one of them has its index.
        // What is written is looked up by its key, row by row: no table is ever read to join a list with it.
        let plans = match purpose {
            Use::Migrate => "",
            Use::Read(_) => "SET enable_seqscan = off;",
            Use::Write => "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;",
        };
        // An answer promises durability, so a server that defaults to less is asked for more.
        let set_up = format!(
            "{limits} {plans} SET default_transaction_isolation = 'read committed'; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'; \
             SELECT pg_backend_pid() AS pid"
        );
        let pid = self.simple_value(&set_up)?;
        self.backend_pid = pid.parse().map_err(|_| Fault::inconsistent("the backend has no process id"))?;
        Ok(())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn backend_pid(&self) -> i32 {
        self.backend_pid
    }

    /// Whether the connection is known to be dead.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Fault> {
        let limit = self.call_timeout;
        let runtime = self.runtime.as_ref().expect("it is there until the end");
        match runtime.block_on(async { tokio::time::timeout(limit, call).await }) {
            Ok(answer) => answer.map_err(|error| fault(&error)),
            Err(_) => Err(Fault::Unavailable(format!("no answer within {limit:?}"))),
        }
    }

    /// Runs text of one or more statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        if std::mem::take(&mut self.begins) {
            return self.wait(self.client.batch_execute(&format!("BEGIN; {sql}")));
        }
        self.wait(self.client.batch_execute(sql))
    }

    /// Opens a transaction with the next statement.
    pub(crate) fn begin(&mut self) {
        self.begins = true;
    }

    pub(crate) fn rollback(&mut self) -> Result<(), Fault> {
        if std::mem::take(&mut self.begins) {
            return Ok(());
        }
        self.batch("ROLLBACK")
    }

    /// The first column of the last row that the text returns.
    fn simple_value(&mut self, sql: &str) -> Result<String, Fault> {
        let messages = self.wait(self.client.simple_query(sql))?;
        let row = messages.into_iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(String::from),
            _ => None,
        });
        row.ok_or_else(|| Fault::inconsistent("no row where one was expected"))
    }

    pub(crate) fn prepare(
        &mut self,
        statement: &'static Statement,
    ) -> Result<tokio_postgres::Statement, Fault> {
        let key = std::ptr::from_ref(statement).addr();
        if let Some(prepared) = self.prepared.get(&key) {
            return Ok(prepared.clone());
        }
        let prepared = self.wait(self.client.prepare(statement.text(Engine::Postgres)))?;
        // The stored types are few; any other means that the server inferred one that a parameter cannot have.
        if let Some(odd) = prepared.params().iter().find(|ty| !PARAMETER_TYPES.contains(ty)) {
            let text = statement.text(Engine::Postgres);
            return Err(Fault::Statement(format!("a parameter of type {odd} in: {text}")));
        }
        self.prepared.insert(key, prepared.clone());
        Ok(prepared)
    }

    pub(crate) fn execute(
        &mut self,
        statement: &'static Statement,
        params: &[Param<'_>],
    ) -> Result<u64, Fault> {
        let prepared = self.prepare(statement)?;
        let begins = std::mem::take(&mut self.begins);
        let params = references(params);
        self.wait(with_begin(&self.client, begins, self.client.execute(&prepared, &params)))
    }

    pub(crate) fn query(
        &mut self,
        statement: &'static Statement,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Fault> {
        let prepared = self.prepare(statement)?;
        let begins = std::mem::take(&mut self.begins);
        let params = references(params);
        self.wait(with_begin(&self.client, begins, self.client.query(&prepared, &params)))
    }

    /// Ends the backend of a connection that we lost, so that what it holds is settled at once. The name makes sure
    /// that a process id which was used again is left alone; one that waits for a standby is left alone too, for ending
    /// it would turn a commit that is not replicated into a commit.
    pub(crate) fn end_backend(&mut self, name: &str, pid: i32) -> Result<(), Fault> {
        let params: [&(dyn ToSql + Sync); 2] = [&pid, &name];
        let call = self.client.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2
                AND wait_event IS DISTINCT FROM 'SyncRep'",
            &params,
        );
        self.wait(call).map(drop)
    }

    pub(crate) fn value(&mut self, sql: &str) -> Result<String, Fault> {
        self.simple_value(sql)
    }
}

impl Drop for PgConnection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends BEGIN ahead of a statement where a transaction is to be opened, and waits for both.
async fn with_begin<T>(
    client: &Client,
    begins: bool,
    call: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    if !begins {
        return call.await;
    }
    // Sent in this order, for they are polled in this order.
    let (begun, outcome) = futures_util::future::join(client.batch_execute("BEGIN"), call).await;
    begun?;
    outcome
}

fn references<'a>(params: &'a [Param<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| param as &(dyn ToSql + Sync)).collect()
}

/// A failure to connect; its text is shown to operators, so it says what the server said.
fn unreachable_database(error: &tokio_postgres::Error) -> Fault {
    Fault::Unavailable(describe(error))
}

fn describe(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

pub(crate) fn fault(error: &tokio_postgres::Error) -> Fault {
    let text = describe(error);
    let fatal = error.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
    if matches!(fatal, Some(Severity::Fatal | Severity::Panic)) {
        return Fault::Unavailable(text);
    }
    let Some(state) = error.code() else {
        // No answer from the server. What the client itself refused to send is the command's own fault.
        use std::error::Error as _;
        let io =
            error.is_closed() || error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
        return if io { Fault::Unavailable(text) } else { Fault::Statement(text) };
    };
    match *state {
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Fault::Conflict(text),
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => Fault::TimedOut(text),
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::TOO_MANY_CONNECTIONS
        | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        | SqlState::DISK_FULL
        | SqlState::OUT_OF_MEMORY
        | SqlState::IO_ERROR
        | SqlState::READ_ONLY_SQL_TRANSACTION => Fault::Unavailable(text),
        _ if state.code().starts_with("08") => Fault::Unavailable(text),
        _ => Fault::Statement(text),
    }
}
