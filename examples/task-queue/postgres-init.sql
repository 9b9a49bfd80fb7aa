-- A role of its own owns the queue and layer 1: never the superuser.
CREATE ROLE queue LOGIN PASSWORD 'queue';
GRANT pg_signal_backend TO queue;
CREATE DATABASE queue OWNER queue;
