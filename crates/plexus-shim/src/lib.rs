//! The small process that holds one child: its stdin, its output files, its exit code, its descendants.
