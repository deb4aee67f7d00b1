//! Tests only: test server, fixtures, a stand-in for the Messages API, fault helpers.
