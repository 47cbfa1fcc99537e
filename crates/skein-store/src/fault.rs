//! A backend that fails on request.
