CREATE TABLE visit_minutes (
    minute bigint NOT NULL, action text NOT NULL, code text NOT NULL, observed text NOT NULL,
    visits bigint NOT NULL, pages bigint NOT NULL, PRIMARY KEY (minute, action, code, observed)
);
INSERT INTO visit_minutes
    SELECT floor(at / 60)::bigint * 60 AS m, action, CASE WHEN action = 'pass' THEN '' ELSE code END AS c, observed,
        count(*), sum(CASE WHEN kind = 'page' THEN 1 ELSE 0 END)
    FROM visits WHERE at > (SELECT max(at) FROM visits) - 86400 GROUP BY m, action, c, observed;
CREATE INDEX visits_visitor ON visits (visitor, at);
CREATE INDEX visits_stopped ON visits (at) WHERE action <> 'pass';
CREATE INDEX visits_bots ON visits (at) WHERE (bot <> '' OR claim <> '');
