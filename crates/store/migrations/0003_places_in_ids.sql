-- A request's id holds its place in line, so it is found without an index of its own.
DROP INDEX requests_by_id;
