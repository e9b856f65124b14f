SELECT i.item, e.tag, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store
LATERAL VIEW OUTER explode(filter(i.tags, x -> x > 6)) e AS tag
WHERE s.id < 9 ORDER BY s.id, e.tag;
