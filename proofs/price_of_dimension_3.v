(* Pages 10 and 11: What it costs to be sharp (Theorem 10.7), What is enough (Propositions 11.4 and 11.5) *)
From mathcomp Require Import all_ssreflect all_fingroup all_algebra.
Require Import definitions identities logarithmic_dimension price_of_dimension_2.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Theorem 10.7 (Converse), second sentence; the first is Keys.radon *)
Module Converse.
Import Keys.
Section Converse.
Variables (R : realFieldType) (k : nat).
Hypothesis k1 : (0 < k)%N.
(* The sets of k or fewer among 2k + 1 columns, the empty one left out. *)
Definition small := [set A : {set 'I_(2 * k).+1} | (0 < #|A| <= k)%N].
(* Step 1. There are 4^k - 1: of a set and its complement just one has at most k elements. *)
Lemma count_small : #|small| = (4 ^ k - 1)%N.
Proof.
pose X := [set A : {set 'I_(2 * k).+1} | (#|A| <= k)%N].
have comp : ~: X = @setC _ @: X.
  apply/setP => A; rewrite -[A in RHS]setCK (mem_imset _ _ (can_inj (@setCK _))) !inE -ltnNge.
  have := cardsC A; rewrite card_ord; move: #|A| #|~: A| => a b e.
  by rewrite -[RHS](leq_add2l a) e mul2n -addnn -addSn leq_add2r.
have all2 : (#|X| + #|X| = 2 ^ (2 * k).+1)%N.
  rewrite -[Y in (_ + Y)%N](card_imset _ (can_inj (@setCK _))) -comp cardsC.
  by rewrite -cardsT -powersetT card_powerset cardsT card_ord.
have X4 : #|X| = (4 ^ k)%N.
  by apply: double_inj; rewrite -addnn all2 expnS mul2n expnM.
rewrite -X4 (cardsD1 set0 X) inE cards0 leq0n add1n subn1 /=.
by apply: eq_card => A; rewrite !inE card_gt0.
Qed.
(* Step 2. 2k + 1 columns have room. *)
Lemma room : ((2 * k).+1 <= 4 ^ k - 1)%N.
Proof.
rewrite leq_subRL ?expn_gt0 // add1n; elim: k k1 => [//|[//|l] IH] _.
rewrite expnS; apply: leq_trans (leq_mul (leqnn 4) (IH isT)); rewrite [(2 * l.+2)%N]mulnS.
by rewrite mulSn add2n -[_.+4]addn2 leq_add2l.
Qed.

(* Theorem 10.7: for n >= 4^k - 1 there is a pattern with at most k columns a row that is not met
   in fewer than 2k dimensions, with any gap. (In 2k it is, by Theorem 10.3.) *)
Theorem radon_pattern n : (4 ^ k - 1 <= n)%N -> exists S : 'I_n -> {set 'I_n},
  [/\ forall i, [/\ S i != set0, S i != setT & (#|S i| <= k)%N],
    forall d (key : 'I_n -> 'rV[R]_d) T (q : 'I_n -> 'rV[R]_d), (d < 2 * k)%N -> 0 < T ->
      ~ forall i, meets key (S i) T (q i) &
    exists key : 'I_n -> 'rV[R]_(2 * k), forall T, exists q, forall i, meets key (S i) T (q i)].
Proof.
move=> big; have mn : ((2 * k).+1 <= n)%N := leq_trans room big.
pose w := widen_ord mn; have wI : injective w by move=> a b /(congr1 val)/= e; apply: val_inj.
(* Row i is the i-th of the small sets; rows beyond the last repeat one of them. *)
pose A0 : {set 'I_(2 * k).+1} := [set ord0].
have A0s : A0 \in small by rewrite inE cards1 k1.
pose row (i : 'I_n) := nth A0 (enum small) i.
have row_small i : row i \in small.
  rewrite /row; have [lt|ge] := ltnP i (size (enum small)); last by rewrite nth_default.
  by have := mem_nth A0 lt; rewrite mem_enum.
have rowE A : A \in small -> exists i, row i = A.
  move=> As; have lt : (index A (enum small) < n)%N.
    apply: leq_trans big; rewrite -count_small cardE index_mem mem_enum //.
  by exists (Ordinal lt); rewrite /row /= nth_index // mem_enum.
have sz i : (#|w @: row i| <= k)%N.
  by rewrite card_imset //; have := row_small i; rewrite inE => /andP[].
exists (fun i => w @: row i); split=> [i|d key T q dk T0 me|].
- split=> //.
    by rewrite -card_gt0 card_imset //; have := row_small i; rewrite inE => /andP[].
  apply: contraTneq (sz i) => ->; rewrite cardsT card_ord -ltnNge (leq_trans _ mn) // ltnS.
  by rewrite leq_pmull.
- (* d + 2 of the columns have a set of at most half of them that is not preferred *)
  have dm : (d.+2 <= (2 * k).+1)%N by [].
  pose v := widen_ord dm; have vI : injective v.
    by move=> a b /(congr1 val)/= e; apply: val_inj.
  have [A [A1 A2 never]] := radon (fun j : 'I_d.+2 => key (w (v j))).
  have As : v @: A \in small.
    rewrite inE card_imset // card_gt0 A1 /= -ltnS -ltn_double doubleS ltnS.
    by apply: leq_trans A2 _; rewrite -mul2n.
  have [i iA] := rowE _ As; apply: (never T (q i) T0) => j l jA lA; apply: me.
    by rewrite iA; apply: imset_f; apply: imset_f.
  by rewrite iA (mem_imset _ _ wI) (mem_imset _ _ vI).
pose t (j : 'I_n) : R := (j : nat)%:R.
have tI : injective t by move=> a b /eqP; rewrite eqr_nat => /eqP/val_inj.
exists (curve k t) => T.
have ex i : exists q, meets (curve k t) (w @: row i) T q by apply: moment.
have [q qP] := fin_all_exists ex.
by exists q.
Qed.
(* Theorem 10.7, first sentence: among any 2k + 1 keys in 2k - 1 dimensions some nonempty set of k or
   fewer cannot be preferred to the rest, with any gap. *)
Theorem radon_keys m (key : 'I_m.+2 -> 'rV[R]_m) : m = (2 * k).-1 ->
  exists S : {set 'I_m.+2}, [/\ S != set0, (#|S| <= k)%N & forall T q, 0 < T -> ~ meets key S T q].
Proof.
move=> mE; have [S [S0 S2 never]] := radon key; exists S; split=> //.
rewrite -ltnS -ltn_double doubleS ltnS; apply: leq_trans S2 _.
by rewrite mE -mul2n; case: k k1 => // l _; rewrite mulnS.
Qed.
End Converse.
(* Instance: k = 1; of three tokens each wants to attend to one, which no line can do. *)
Example three_tokens := radon_pattern [realFieldType of rat] (isT : (0 < 1)%N) (isT : (4 ^ 1 - 1 <= 3)%N).
End Converse.

(* Proposition 11.4 (Bits), the first bound of (a), and (b); the second bound of (a) is
   Bits.bits_patterns *)
Module MoreBits.
Import Bits.
Section Distinct.
Variables (F : realFieldType) (n k d p : nat) (B : finType) (val : B -> F).
(* B: the values of a coordinate, 2^p of them, of real value val. *)
Hypotheses (bits : #|B| = (2 ^ p)%N) (k1 : (0 < k)%N) (kn : (k < n.+1)%N).
Hypotheses serves : forall S : {ffun 'I_n.+1 -> {set 'I_n.+1}}, (forall i, #|S i| = k) ->
  exists T Q K, 0 < T /\ @meets F n.+1 d B val T Q K S.
(* Row i of the pattern: the k columns from i on, cyclically. *)
Definition window (i : 'I_n.+1) := [set j : 'I_n.+1 | ((j - i)%R < k)%N].
Lemma card_window i : #|window i| = k.
Proof.
have -> : window i = [set i + x | x : 'I_n.+1 & (x < k)%N].
  apply/setP => j; apply/idP/imsetP => [|[x]]; rewrite inE.
    by move=> jk; exists (j - i); [rewrite inE | rewrite addrCA subrr addr0].
  by rewrite ?inE => xk ->; rewrite ?inE addrC addKr.
rewrite card_imset; last exact: addrI.
by rewrite -sum1dep_card -(big_ord_widen n.+1 (fun=> 1%N) (ltnW kn)) sum1_card card_ord.
Qed.
(* Step 1. For any two columns some row has just the first. *)
Lemma separate (j l : 'I_n.+1) : j != l -> exists i, j \in window i /\ l \notin window i.
Proof.
move=> jl; have [far|near] := leqP k (l - j)%R.
  by exists j; rewrite !inE subrr k1 -leqNgt.
pose kk : 'I_n.+1 := inord k; have kkE : kk = k :> nat by rewrite inordK.
exists (l - kk); rewrite !inE !opprB [l + (kk - l)]addrCA subrr addr0 kkE ltnn; split=> //.
have a0 : (0 < (l - j)%R)%N.
  by rewrite lt0n; apply: contra jl => /eqP z; rewrite eq_sym -subr_eq0; apply/eqP/val_inj.
have -> : j + (kk - l) = kk - (l - j) by rewrite opprB addrCA.
move: near a0; move: (l - j)%R => a near a0.
have ka : (k - a < n.+1)%N by rewrite (leq_ltn_trans (leq_subr _ _)).
suff -> : kk - a = inord (k - a) by rewrite inordK // ltn_subrL a0 k1.
apply/eqP; rewrite subr_eq; apply/eqP/val_inj; rewrite /= kkE inordK //.
by rewrite subnK ?modn_small // ltnW.
Qed.
(* Proposition 11.4 (a), first bound, d p >= log_2 n for n + 1 tokens: one pattern whose rows
   separate all columns has no two equal keys. *)
Theorem bits_tokens : (n.+1 <= 2 ^ (d * p))%N.
Proof.
have wk i : #|[ffun i => window i] i| = k by rewrite ffunE card_window.
have [T [Q [K [T0 me]]]] := serves wk.
pose key (j : 'I_n.+1) : {ffun 'I_d -> B} := [ffun c => K (j, c)].
have inj : injective key.
  move=> j l e; apply/eqP; apply: contraT => /separate[i [ji li]].
  have := me i j l; rewrite ffunE => /(_ ji li); rewrite leNgt => /negP[].
  suff -> : logit val Q K i j = logit val Q K i l by rewrite subrr.
  by apply: eq_bigr => c _; have /ffunP/(_ c) := e; rewrite !mxE !ffunE => ->.
have := leq_card _ inj; rewrite card_ffun bits !card_ord -expnM mulnC; exact.
Qed.
(* Proposition 11.4 (a), second bound, d p >= (k/2) log_2 (n/k): n^k <= 2^(2 d p) k^k. *)
Theorem bits_patterns : (n.+1 ^ k <= 2 ^ (2 * (d * p)) * k ^ k)%N.
Proof. exact: (Bits.bits_patterns bits k1 kn serves). Qed.
End Distinct.

Section Round.
Variables (F : rcfType) (p : nat).
(* x' is x rounded to p significant bits: x is scaled by a power of two so that its size is at
   least 2^(p-1), and then replaced by a nearest integer. *)
Definition rounded (x x' : F) := exists (e : int) (m : int), let y := x * 2%:R ^ e in
  [/\ 2%:R ^+ p <= `|y| * 2%:R \/ x = 0, `|m%:~R - y| <= 2%:R^-1 & x' = m%:~R / 2%:R ^ e].
(* Step 1. A coordinate changes by a factor within 1 +- u, u = 2^-p. *)
Lemma relative x x' : rounded x x' -> `|x' - x| <= (2%:R ^+ p)^-1 * `|x|.
Proof.
case=> e [m [big near ->]]; have [z|x0] := eqVneq x 0.
  move: near; rewrite z mul0r subr0 normr0 mulr0 => near; suff -> : m = 0.
    by rewrite mul0r subr0 normr0.
  apply/eqP; rewrite -[_ == _]negbK; apply/negP => m0; move: near; rewrite leNgt => /negP[].
  apply: lt_le_trans (_ : 1 <= _); first by rewrite invf_lt1 ?ltr0n // ltr1n.
  by rewrite -intr_norm -[1]/(1%:~R) ler_int -gtz0_ge1 normr_gt0.
case: big => [big|z]; last by rewrite z eqxx in x0.
have c0 : 0 < 2%:R ^ e :> F by rewrite exprz_gt0 ?ltr0n.
have P0 : 0 < 2%:R ^+ p :> F by rewrite exprn_gt0 ?ltr0n.
move: (2%:R ^ e) c0 big near => c c0 big near.
have e1 : `|m%:~R / c - x| * c = `|m%:~R - x * c|.
  by rewrite -{2}(gtr0_norm c0) -normrM mulrBl divfK ?gt_eqF.
rewrite -(ler_pmul2r c0) e1; apply: le_trans near _.
have -> : (2%:R ^+ p)^-1 * `|x| * c = (2%:R ^+ p)^-1 * `|x * c|.
  by rewrite normrM (gtr0_norm c0) mulrA.
by rewrite ler_pdivl_mull // ler_pdivr_mulr ?ltr0n.
Qed.
Import FullRank Keys.
(* Proposition 11.4 (b): with p >= 3 + log_2 (s / T) bits, that is 8 s / T <= 2^p, at least 2/5 of
   the gap of every row is left. Norms are at most 1 for keys and s for the query. *)
Theorem bits_gap d n (key key' : 'I_n -> 'rV[F]_d) (q q' : 'rV[F]_d) (S : {set 'I_n}) s T :
  0 < T -> (forall j, norm (key j) <= 1) -> norm q <= s -> 8%:R * s / T <= 2%:R ^+ p ->
  (forall c, rounded (q 0 c) (q' 0 c)) -> (forall j c, rounded (key j 0 c) (key' j 0 c)) ->
  Keys.meets key S T q -> Keys.meets key' S (2%:R / 5%:R * T) q'.
Proof.
move=> T0 key1 qs ps rq rk me j l jS lS; have {me} := me j l jS lS.
set g := _ - _; set g' := _ - _ => gap.
have s0 : 0 <= s by apply: le_trans qs; exact: sqrtr_ge0.
(* a gap never exceeds 2 s *)
have one i : dot q (key i) <= s /\ - s <= dot q (key i).
  have b : norm q * norm (key i) <= s.
    rewrite -[s]mulr1; apply: ler_pmul => //; exact: sqrtr_ge0.
  split; first exact: le_trans (cauchy _ _) b.
  rewrite ler_oppl; have := cauchy (- q) (key i); rewrite normN -scaleN1r dotZl mulN1r => h.
  exact: le_trans h b.
have Ts : T <= s *+ 2.
  apply: le_trans gap _; rewrite /g mulr2n -{2}[s]opprK.
  by apply: ler_sub; [exact: (proj1 (one _)) | exact: (proj2 (one _))].
pose u : F := (2%:R ^+ p)^-1; have P0 : 0 < 2%:R ^+ p :> F by rewrite exprn_gt0 ?ltr0n.
have u0 : 0 <= u by rewrite invr_ge0 ltW.
(* u s <= T / 8, so u <= 1/4 *)
have us : u * s *+ 8 <= T.
  move: ps; rewrite ler_pdivr_mulr // => ps.
  by rewrite -mulrnAr -[s *+ 8]mulr_natl /u ler_pdivr_mull.
have u4 : u *+ 4 <= 1.
  have spos : 0 < s by rewrite -(pmulrn_lgt0 _ (ltn0Sn 1)) (lt_le_trans T0).
  have := le_trans us Ts; rewrite -[8%N]/(4 * 2)%N mulrnA ler_muln2r /= -mulrnAl.
  by rewrite -[X in _ <= X]mul1r ler_pmul2r.
have each i : `|dot q' (key' i) - dot q (key i)| <= (u *+ 2 + u ^+ 2) * s.
  have rQ : rounds u q q' by move=> c; apply: relative.
  have rK : rounds u (key i) (key' i) by move=> c; apply: relative.
  apply: le_trans (rounding u0 rQ rK) _; rewrite -mulrA ler_wpmul2l //.
    by rewrite addr_ge0 ?mulrn_wge0 ?sqr_ge0.
  rewrite -[s]mulr1; apply: ler_pmul => //; exact: sqrtr_ge0.
have loss : g - g' <= (u *+ 2 + u ^+ 2) * s *+ 2.
  have -> : g - g' = (dot q (key j) - dot q' (key' j)) +
    (dot q' (key' l) - dot q (key l)) by rewrite /g /g'; ident.
  rewrite mulr2n; apply: ler_add; last exact: le_trans (ler_norm _) (each l).
  by rewrite -opprB; apply: le_trans (ler_norm _) _; rewrite normrN.
(* the loss is at most 9/16 T *)
have nine : (u *+ 2 + u ^+ 2) * s *+ 32 <= T *+ 9.
  have -> : (u *+ 2 + u ^+ 2) * s *+ 32 = u * s *+ 8 *+ 8 + u *+ 4 * (u * s *+ 8) by ident.
  rewrite [T *+ 9]mulrSr; apply: ler_add; first by rewrite ler_muln2r us.
  apply: le_trans (ler_wpmul2r _ u4) _; first by rewrite mulrn_wge0 ?mulr_ge0.
  by rewrite mul1r.
have five : 0 < 5%:R :> F by rewrite ltr0n.
have low : g *+ 16 <= g' *+ 16 + T *+ 9.
  rewrite -ler_subl_addl -mulrnBl; apply: le_trans nine.
  by rewrite -[32%N]/(2 * 16)%N mulrnA ler_muln2r loss.
have : T *+ 16 <= g' *+ 16 + T *+ 9 by apply: le_trans low; rewrite ler_muln2r gap.
rewrite -ler_subl_addr -mulrnBr // => h.
rewrite mulrAC ler_pdivr_mulr // -[2%:R * T]mulrC mulr_natr mulr_natr.
have g5 : T *+ 7 *+ 5 <= g' *+ 16 *+ 5 by rewrite ler_muln2r h.
rewrite -(@ler_pmuln2r _ 16) //; apply: le_trans (_ : T *+ 35 <= _).
  by rewrite -mulrnA ler_wpmuln2l // ltW.
by move: g5; rewrite -!mulrnA.
Qed.
End Round.
(* Instance: 3 is a number of two bits, and is rounded to itself. *)
Example three (F : rcfType) : rounded 2 (3%:R : F) 3%:R.
Proof.
have e : 3%:R * 2%:R ^ 0 = 3%:R :> F by rewrite expr0z mulr1.
exists 0, (Posz 3); split; rewrite ?e ?subrr ?normr0 ?invr_ge0 ?ler0n ?expr0z ?divr1 //; left.
by rewrite ger0_norm ?ler0n // -natrX -natrM ler_nat.
Qed.
End MoreBits.
