CREATE SEQUENCE visits_id;
CREATE TABLE visits (
    id bigint NOT NULL DEFAULT nextval('visits_id'), at double precision NOT NULL, visitor text NOT NULL,
    address text NOT NULL, account text NOT NULL, method text NOT NULL, host text NOT NULL, target text NOT NULL,
    kind text NOT NULL, referrer text NOT NULL, user_agent text NOT NULL, origin text NOT NULL,
    prefetch boolean NOT NULL, bot text NOT NULL, marker_kind text, minted_for bytea, parent bytea,
    marker_target text, asked text NOT NULL, tampered boolean NOT NULL, linked bytea NOT NULL,
    status integer NOT NULL, action text NOT NULL, code text NOT NULL, evidence text NOT NULL, ref text NOT NULL,
    claim text NOT NULL, proof text NOT NULL, signs text NOT NULL, fingerprint text NOT NULL,
    odd text NOT NULL DEFAULT ''
) PARTITION BY RANGE (at);
CREATE INDEX visits_at ON visits (at);
CREATE INDEX visits_ref ON visits (ref) WHERE ref <> '';
