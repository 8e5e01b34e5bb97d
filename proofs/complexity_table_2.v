(* Page 8: What attention costs (Proposition 8.5) *)
From mathcomp Require Import all_ssreflect.
Set Implicit Arguments.
Unset Strict Implicit.

(* n = l a tokens in a blocks of l; the last c of each block are its summaries. *)
Section Order.
Variables (l a c : nat).
Hypotheses (l0 : 0 < l) (c0 : 0 < c) (cl : c <= l).
(* The two parts of the fixed pattern (8.2); with the skip a token also keeps what it has. *)
Definition local i j := (j <= i) && ((j == i) || (i %/ l == j %/ l)).
Definition summary i j := (j <= i) && ((j == i) || (l - c <= j %% l)).
(* After a first layer with pattern p1 and a second with p2, i has heard of j. *)
Definition joined (p1 p2 : nat -> nat -> bool) i j := exists k, p2 i k /\ p1 k j.
(* Proposition 8.5 (The order of two layers): local part first, every pair j <= i is joined. *)
Theorem local_first i j : j <= i -> joined local summary i j.
Proof.
move=> ji; have [same|diff] := boolP (i %/ l == j %/ l).
  by exists i; rewrite /local /summary leqnn eqxx ji same orbT.
have lt : j %/ l < i %/ l by rewrite ltn_neqAle eq_sym diff leq_div2r.
pose k := j %/ l * l + (l - 1).
have l1 : l - 1 < l by rewrite subn1 prednK.
have kd : k %/ l = j %/ l by rewrite divnMDl // [(l - 1) %/ l]divn_small ?addn0.
have km : k %% l = l - 1 by rewrite modnMDl [(l - 1) %% l]modn_small.
exists k; rewrite /local /summary kd km eqxx leq_sub2l // !orbT !andbT; split.
  apply: leq_trans (leq_trunc_div i l); apply: leq_trans (_ : (j %/ l).+1 * l <= _).
    by rewrite mulSn addnC leq_add // leq_subr.
  by rewrite leq_mul2r lt orbT.
by rewrite {1}(divn_eq j l) leq_add2l subn1 -ltnS prednK // ltn_pmod.
Qed.
(* Summaries first: joined are the pairs of one block and those in which j is a summary. *)
Lemma summary_first i j : j <= i ->
  joined summary local i j <-> (i %/ l == j %/ l) || (l - c <= j %% l).
Proof.
move=> ji; split=> [[k [/andP[ki ik] /andP[jk kj]]]|].
  case/orP: kj => [/eqP ->|->]; last by rewrite orbT.
  by case/orP: ik => [/eqP ->|->]; rewrite ?eqxx.
case/orP => [same|sum].
  by exists j; rewrite /local /summary leqnn eqxx ji same orbT.
by exists i; rewrite /local /summary leqnn eqxx ji sum orbT.
Qed.
(* The pairs j <= i that are not joined. *)
Definition missed (x : 'I_(l * a) * 'I_(l * a)) :=
  [&& x.2 <= x.1, x.1 %/ l != x.2 %/ l & x.2 %% l < l - c].
Lemma missedP x : missed x <-> (x.2 <= x.1) /\ ~ joined summary local x.1 x.2.
Proof.
rewrite /missed ltnNge -negb_or; split=> [/andP[ji no]|[ji no]].
  by split=> // /(summary_first ji); rewrite (negbTE no).
by rewrite ji; apply/negP => /(summary_first ji).
Qed.
(* Proposition 8.5: they are l (l - c) C(n/l, 2). *)
Theorem missed_pairs : #|[pred x | missed x]| = l * (l - c) * 'C(a, 2).
Proof.
pose miss (i j : nat) := [&& j <= i, i %/ l != j %/ l & j %% l < l - c].
(* a sum over tokens is a sum over blocks and places *)
have blocks (f : nat -> nat) : \sum_(i < l * a) f i = \sum_(p < a) \sum_(u < l) f (p * l + u).
  elim: a => [|b IH]; first by rewrite muln0 !big_ord0.
  by rewrite mulnS addnC big_split_ord IH big_ord_recr /= mulnC.
have missE p q u v : u < l -> v < l -> miss (p * l + u) (q * l + v) = (q < p) && (v < l - c).
  move=> ul vl; rewrite /miss !divnMDl // !divn_small // !addn0 modnMDl modn_small //.
  case: (ltngtP q p) => [lt|lt|->]; rewrite ?andbF //=.
    suff -> : q * l + v <= p * l + u by [].
    apply: leq_trans (leq_addr _ _); apply: leq_trans (_ : q.+1 * l <= _).
      by rewrite mulSn addnC leq_add // ltnW.
    by rewrite leq_mul2r lt orbT.
  suff -> : (q * l + v <= p * l + u) = false by [].
  apply/negbTE; rewrite -ltnNge; apply: leq_trans (leq_addr _ _).
  by apply: leq_trans (_ : p.+1 * l <= _); rewrite ?leq_mul2r ?lt ?orbT // mulSn addnC ltn_add2r.
have count m n : m <= n -> \sum_(v < n) (v < m) = m.
  move=> mn; rewrite -[RHS]card_ord -sum1_card (big_ord_widen n (fun=> 1) mn) [RHS]big_mkcond.
  by apply: eq_bigr => v _; case: ltnP.
have -> : #|[pred x | missed x]| = \sum_(i < l * a) \sum_(j < l * a) miss i j.
  by rewrite pair_big /= -sum1_card [LHS]big_mkcond; apply: eq_bigr => -[i j] _.
rewrite (blocks (fun i => \sum_(j < l * a) miss i j)).
have inner (p : 'I_a) (u : 'I_l) : \sum_(j < l * a) miss (p * l + u) j = p * (l - c).
  rewrite (blocks (miss _)) (eq_bigr (fun q : 'I_a => (q < p) * (l - c))) => [|q _].
    by rewrite -big_distrl /= count // ltnW.
  rewrite (eq_bigr (fun v : 'I_l => (q < p) * (v < l - c))) => [|v _]; last by rewrite missE // mulnb.
  by rewrite -big_distrr /= count // leq_subr.
rewrite (eq_bigr (fun p : 'I_a => l * (l - c) * p)) => [|p _]; last first.
  by rewrite (eq_bigr _ (fun u _ => inner p u)) sum_nat_const card_ord [p * _]mulnC mulnA.
by rewrite -big_distrr /= -textbook_triangular_sum big_mkord.
Qed.
End Order.
(* Instance: six tokens in two blocks of three, one summary each: 3 * 2 pairs are missed. *)
Example six_tokens : #|[pred x | @missed 3 2 1 x]| = 6.
Proof. by rewrite missed_pairs. Qed.
