CREATE TABLE batches (name text PRIMARY KEY, written timestamptz NOT NULL DEFAULT now());
