CREATE TABLE list_entries (
    list text COLLATE "C" NOT NULL, subject text COLLATE "C" NOT NULL, sort text NOT NULL, reason text NOT NULL,
    author text NOT NULL, since double precision NOT NULL, until double precision NOT NULL,
    change bigint NOT NULL, gone integer NOT NULL, PRIMARY KEY (list, subject)
);
CREATE INDEX list_entries_change ON list_entries (change);
CREATE TABLE list_changes (number bigint PRIMARY KEY, at double precision NOT NULL);
CREATE TABLE list_purged (number bigint NOT NULL);
INSERT INTO list_purged VALUES (0);
