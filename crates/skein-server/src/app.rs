//! The application: all routes, the document that describes them, and what every request passes through.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use skein_domain::Kind;
use skein_fleet::Fleet;
use skein_ledger::TaskGroup;
use tokio::sync::Notify;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::door;
use crate::error::ApiError;
use crate::route;

/// Longest a call may take before it is answered with a timeout. Event streams may take longer.
const MOST_TIME: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct AppOptions {
    pub version: String,
    pub socket: PathBuf,
    pub listen: Option<std::net::SocketAddr>,
    /// The actor of requests on the Unix socket that name none.
    pub user: skein_domain::Actor,
}

/// What handlers share.
#[derive(Clone, Debug)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fleet: Arc<Fleet>,
    tasks: TaskGroup,
    options: AppOptions,
    started: Instant,
    stop: Notify,
}

impl App {
    pub fn new(fleet: Arc<Fleet>, tasks: TaskGroup, options: AppOptions) -> Self {
        let started = Instant::now();
        Self(Arc::new(Inner {
            fleet,
            tasks,
            options,
            started,
            stop: Notify::new(),
        }))
    }

    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.0.fleet
    }

    pub(crate) fn tasks(&self) -> &TaskGroup {
        &self.0.tasks
    }

    pub(crate) fn options(&self) -> &AppOptions {
        &self.0.options
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.0.started.elapsed()
    }

    /// Asks the daemon to stop; its main task waits on [`App::stop_asked`].
    pub(crate) fn ask_stop(&self) {
        self.0.stop.notify_one();
    }

    pub async fn stop_asked(&self) {
        self.0.stop.notified().await;
    }

    /// The routes with everything a request passes through, outermost last.
    pub fn router(&self) -> Router {
        let (router, document) = routes().split_for_parts();
        let document = Arc::new(document);
        let open = move || {
            let document = document.clone();
            async move { axum::Json((*document).clone()) }
        };
        router
            .route("/api/v1/openapi.json", axum::routing::get(open))
            .fallback(unknown_route)
            .method_not_allowed_fallback(wrong_method)
            .layer(from_fn_with_state(self.clone(), door::authenticate))
            .layer(from_fn(bounded))
            .layer(from_fn_with_state(self.clone(), stamp))
            .with_state(self.clone())
    }
}

#[derive(OpenApi)]
#[openapi(
    info(title = "skein", description = "Sessions of people and AI agents: who owns which, under which limits."),
    tags(
        (name = "projects"), (name = "threads"), (name = "sessions"), (name = "transcripts"), (name = "fleet"),
        (name = "events"), (name = "tokens"), (name = "daemon"),
    )
)]
struct Document;

fn routes() -> OpenApiRouter<App> {
    let mut document = Document::openapi();
    document.info.version = skein_wire::API.into();
    OpenApiRouter::with_openapi(document)
        .merge(route::project::routes())
        .merge(route::thread::routes())
        .merge(route::session::routes())
        .merge(route::fleet::routes())
        .merge(route::summary::routes())
        .merge(route::transcript::routes())
        .merge(route::event::routes())
        .merge(route::token::routes())
        .merge(route::daemon::routes())
}

/// The OpenAPI document of the routes above.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

async fn unknown_route(request: Request) -> ApiError {
    let path = request.uri().path().escape_debug().to_string();
    let hints = ["`/api/v1/openapi.json` lists the calls"];
    ApiError::new(Kind::NotFound, format!("there is no call `{path}`"), &hints)
}

async fn wrong_method(request: Request) -> ApiError {
    let message = format!(
        "`{}` cannot be called with {}",
        request.uri().path().escape_debug(),
        request.method()
    );
    ApiError::misuse(message, &["`/api/v1/openapi.json` lists the calls"])
        .with_status(StatusCode::METHOD_NOT_ALLOWED)
}

async fn bounded(request: Request, next: Next) -> Response {
    match tokio::time::timeout(MOST_TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::new(
            Kind::TimedOut,
            format!("the call took longer than {} s", MOST_TIME.as_secs()),
            &["what it began may still be done; repeat it with the same Idempotency-Key to learn the outcome"],
        )
        .into_response(),
    }
}

/// Marks every answer with our version, and forbids browsers to cache it or to guess its type.
async fn stamp(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if let Ok(version) = HeaderValue::from_str(&app.options().version) {
        headers.insert(skein_wire::VERSION_HEADER, version);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
