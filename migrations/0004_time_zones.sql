-- Agents align calendar windows by the time-zone database of their build. Two versions may put an edge at two moments, so an operator must see
-- who has which. Empty: an older build, which does not say.
ALTER TABLE agents ADD COLUMN time_zones text NOT NULL DEFAULT '';
