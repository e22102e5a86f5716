CREATE INDEX visits_number ON visits (id);
