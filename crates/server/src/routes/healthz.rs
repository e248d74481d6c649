/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "Service", operation_id = "healthz", responses((status = 200, body = String)))]
pub(crate) async fn handle() -> &'static str {
    "alive\n"
}
