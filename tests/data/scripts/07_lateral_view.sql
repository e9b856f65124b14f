SELECT tag, count(*) AS n FROM (SELECT s.id, i.tags FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store) x LATERAL VIEW explode(tags) e AS tag
GROUP BY tag ORDER BY tag;
SELECT i.name, p.pos, p.tag FROM items i LATERAL VIEW posexplode(i.tags) p AS pos, tag WHERE i.item < 2 ORDER BY i.name, p.pos;
