//! Drives a whole server with simulated children and prints the measures of the design.
