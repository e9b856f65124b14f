INSERT OVERWRITE DIRECTORY 'out_09' USING csv SELECT s.id, i.name, t.city FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.qty = 4;
SELECT count(*), count(DISTINCT _c1) FROM csv.`out_09`;
INSERT OVERWRITE DIRECTORY 'out_09b' USING parquet SELECT s.id, i.name FROM sales s JOIN items i ON s.item = i.item JOIN stores t ON s.store = t.store WHERE s.qty = 1;
SELECT count(*) FROM parquet.`out_09b`;
!rm -r out_09 out_09b;
